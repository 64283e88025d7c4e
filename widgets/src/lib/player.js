// One step after another: forward, back, to any of them; by itself only when asked, and never where motion is not wanted.

import { button, slider } from "./controls.js";
import { h, say } from "./dom.js";

const PAUSE = 1100; // long enough to read what changed

/** @param {{label: string, first: number, most: number, onset: (step: number) => void}} options */
export function player({ label, first, most, onset }) {
  let [at, last, next] = [first, most, first];
  /** @type {ReturnType<typeof setInterval> | undefined} */
  let timer;
  const step = slider({ label, min: first, max: most, step: 1, show: (x) => `${x} of ${last}`, onset });
  const back = button("Back", () => onset(Math.max(first, at - 1)));
  const forward = button("Next", () => onset(Math.min(last, at + 1)));
  const play = button("Play", () => {
    if (timer) return stop();
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    say(play, "Pause");
    go(at >= last ? first : at + 1);
    timer = setInterval(() => (at < last ? go(at + 1) : stop()), PAUSE);
  });
  play.classList.add("att-play");

  /** @param {number} to */
  function go(to) {
    next = to;
    onset(to);
  }
  function stop() {
    clearInterval(timer);
    timer = undefined;
    say(play, "Play");
  }
  return {
    element: h("div", { class: "att-player" }, step.element, h("div", {}, back, forward, play)),
    stop,
    /** @param {number} now @param {number} end */
    show(now, end) {
      [at, last] = [now, end];
      step.input.max = String(end);
      step.show(now);
      back.disabled = now <= first && document.activeElement !== back; // a button that has the focus keeps it
      forward.disabled = now >= end && document.activeElement !== forward;
      if (timer && now !== next) stop(); // the reader took over
    },
  };
}
