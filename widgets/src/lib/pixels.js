// Weights as pixels: of one colour, and the page's own paper shines through where there is little.

const WEIGHT = [204, 121, 167];

/**
 * Fill a canvas of a pixel a weight.
 * @param {HTMLCanvasElement} canvas @param {(q: number, k: number) => number} at  0 to 1
 */
export function paint(canvas, at) {
  const context = canvas.getContext("2d", { willReadFrequently: true }); // in plain memory: it is only written to
  if (!context) return;
  const { width, height } = canvas;
  const image = context.createImageData(width, height);
  for (let q = 0, i = 0; q < height; q++)
    for (let k = 0; k < width; k++, i += 4) {
      image.data[i] = WEIGHT[0];
      image.data[i + 1] = WEIGHT[1];
      image.data[i + 2] = WEIGHT[2];
      image.data[i + 3] = 255 * at(q, k);
    }
  context.putImageData(image, 0, 0);
}
