"""One file a set: ``ch05`` holds the questions of chapter 5."""
