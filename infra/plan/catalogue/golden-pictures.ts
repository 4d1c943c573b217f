/** Pictures that golden questions are about; the builder's image has each as `/opt/engine-room/golden/<name>.png`. */

interface GoldenPictureRow {
  /** Where it is published: for requests, and for images that lack it. */
  readonly address: string;
  /** An image may be given on only with pictures that ask nothing of who does. */
  readonly license: "CC0-1.0";
  /** Who says so. */
  readonly source: string;
}

export const GOLDEN_PICTURE_NAMES = ["coffee"] as const;
export type GoldenPicture = (typeof GOLDEN_PICTURE_NAMES)[number];

export const goldenPictures: Readonly<Record<GoldenPicture, GoldenPictureRow>> = {
  // An espresso on a red saucer.
  coffee: {
    address: "https://raw.githubusercontent.com/scikit-image/scikit-image/v0.25.2/skimage/data/coffee.png",
    license: "CC0-1.0",
    source: "scikit-image 0.25.2, docstring of skimage.data.coffee: CC0 by the photographer, Rachel Michetti",
  },
};
