"""From a client's bytes to pixels: the formats, the limits, and malicious or damaged files."""

from __future__ import annotations

import base64
import io
import struct
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models.encoders.image_input import ImageLimits, Preprocessing, decode_image
from PIL import Image

from engine_room.cpu_models.clip_graph import CLIP_MEAN, CLIP_STD
from engine_room.cpu_models.clip_graph import Preprocessing as Written

LIMITS = ImageLimits(max_bytes=1_000_000, max_pixels=1_000_000)


def picture(width: int = 64, height: int = 48, mode: str = "RGB") -> Image.Image:
    """A gradient with a red left half and a blue right half."""
    image = Image.new("RGB", (width, height), "red")
    image.paste("blue", (width // 2, 0, width, height))
    return image.convert(mode)


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def preprocessing(folder: Path, resize: int = 8, crop: int = 8) -> Preprocessing:
    path = folder / "preprocess.json"
    path.write_text(Written(resize, crop, CLIP_MEAN, CLIP_STD).to_json())
    return Preprocessing(path)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_all_three_formats_are_decoded(kind: str) -> None:
    image = decode_image(encoded(picture(), kind, quality=95), LIMITS)
    assert (image.mode, image.size) == ("RGB", (64, 48))
    pixels = np.asarray(image)
    assert np.allclose(pixels[24, 8], (255, 0, 0), atol=6)
    assert np.allclose(pixels[24, 56], (0, 0, 255), atol=6)


def test_an_upright_rgb_image_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Image.Image] = []
    open_image = Image.open

    def remember(*arguments: Any, **options: Any) -> Image.Image:
        opened.append(open_image(*arguments, **options))
        return opened[-1]

    monkeypatch.setattr(Image, "open", remember)
    decoded = decode_image(encoded(picture(), "JPEG"), LIMITS)
    assert decoded is opened[0]


@pytest.mark.parametrize(
    "prefix", ["data:image/png;base64,", "DATA:image/PNG;BASE64,", "data:image/svg+xml;base64,"]
)
def test_a_data_url_is_decoded(prefix: str) -> None:
    data = encoded(picture(), "PNG")
    image = decode_image(prefix.encode() + base64.b64encode(data), LIMITS)
    assert image.tobytes() == picture().tobytes()


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"data:image/png,abc", "another form than data:image/TYPE;base64,DATA"),
        (b"data:text/plain;base64,aGk=", "another form"),
        (b"data:image/png;base64,a*b=", "not valid base64"),
        (b"data:image/png;base64,abc", "not valid base64"),
        (b"data:image/png;base64," + b"A" * 1_400_000, "at most 1000000 are accepted"),
        (b"data:image/png;base64,", r"not a readable JPEG, PNG or WebP image \(0 bytes\)"),
        (b"data:image/png;base64,aGVsbG8=", r"readable JPEG, PNG or WebP image \(5 bytes\)"),
    ],
)
def test_malformed_data_urls_are_refused(value: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decode_image(value, LIMITS)


@pytest.mark.parametrize("kind", ["GIF", "BMP", "TIFF", "PPM", "ICO", "PDF"])
def test_other_formats_are_refused(kind: str) -> None:
    with pytest.raises(ValueError, match="not a readable JPEG, PNG or WebP"):
        decode_image(encoded(picture(), kind), LIMITS)


@pytest.mark.parametrize(
    "value", [b"", b"hello", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"RIFF\x10\0\0\0WEBPVP8 "]
)
def test_files_that_are_not_images_are_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match="not a readable JPEG, PNG or WebP"):
        decode_image(value, LIMITS)


def noise(width: int, height: int) -> Image.Image:
    return Image.fromarray(np.random.RandomState(0).randint(0, 256, (height, width, 3)).astype(np.uint8))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("part", [0.2, 0.5, 0.9])
def test_truncated_files_are_refused(kind: str, part: float) -> None:
    data = encoded(noise(200, 200), kind)
    with pytest.raises(ValueError, match=r"damaged|not a readable JPEG, PNG or WebP"):
        decode_image(data[: int(len(data) * part)], LIMITS)


def test_damaged_images_are_decoded_or_refused() -> None:
    random = np.random.RandomState(7)
    outcomes = set()
    for kind in ("JPEG", "PNG", "WEBP"):
        data = encoded(noise(40, 30), kind)
        for _ in range(150):
            damaged = bytearray(data)
            for position in random.randint(0, len(data), 6):
                damaged[position] = random.randint(256)
            try:
                outcomes.add(decode_image(bytes(damaged), LIMITS).mode)
            except ValueError as error:
                outcomes.add(str(error).partition(":")[0])
    # A damaged file is either refused in a sentence or still an image; no other exception leaves the decoder.
    assert "RGB" in outcomes
    assert "it is damaged" in outcomes


def png(width: int, height: int) -> bytes:
    """A PNG of a few bytes that declares any size."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(bytes(64)))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(("width", "height"), [(1001, 1000), (50_000, 50_000), (2**31 - 1, 2**31 - 1)])
def test_a_decompression_bomb_is_refused_before_it_is_decoded(width: int, height: int) -> None:
    tracemalloc.start()
    with pytest.raises(ValueError, match=f"has {width} x {height} pixels, at most 1000000"):
        decode_image(png(width, height), LIMITS)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


def test_a_webp_bomb_is_refused() -> None:
    # Forty bytes that unfold to 805 MB.
    data = encoded(Image.new("RGB", (4000, 4000), "red"), "WEBP", lossless=True, quality=0, method=0)
    assert len(data) < 100
    with pytest.raises(ValueError, match="has 4000 x 4000 pixels"):
        decode_image(data, LIMITS)


def test_limits_are_inclusive() -> None:
    data = encoded(picture(1000, 1000), "PNG")
    assert decode_image(data, LIMITS).size == (1000, 1000)
    assert decode_image(data, ImageLimits(len(data), 1_000_000)).size == (1000, 1000)
    assert decode_image(b"data:image/png;base64," + base64.b64encode(data), ImageLimits(len(data), 1_000_000))
    with pytest.raises(ValueError, match=f"has {len(data)} bytes, at most {len(data) - 1} are accepted"):
        decode_image(data, ImageLimits(len(data) - 1, 1_000_000))


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_rotated_photographs_are_turned_upright(orientation: int, kind: str) -> None:
    upright = picture()
    # A camera stores the upright picture by the inverse of a viewer's rotation, for each orientation.
    stored = {
        2: [Image.Transpose.FLIP_LEFT_RIGHT],
        3: [Image.Transpose.ROTATE_180],
        4: [Image.Transpose.FLIP_TOP_BOTTOM],
        5: [Image.Transpose.TRANSPOSE],
        6: [Image.Transpose.ROTATE_90],
        7: [Image.Transpose.TRANSVERSE],
        8: [Image.Transpose.ROTATE_270],
    }
    image = upright
    for step in stored.get(orientation, []):
        image = image.transpose(step)
    exif = Image.Exif()
    exif[0x0112] = orientation
    decoded = decode_image(encoded(image, kind, exif=exif, lossless=True), LIMITS)
    assert decoded.tobytes() == upright.tobytes()


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK"])
def test_every_mode_becomes_rgb(mode: str) -> None:
    kind = "JPEG" if mode == "CMYK" else "PNG"
    image = decode_image(encoded(picture(mode=mode), kind), LIMITS)
    assert (image.mode, image.size) == ("RGB", (64, 48))


def test_sixteen_bit_grey_is_scaled() -> None:
    grey = Image.fromarray(np.array([[0, 128 << 8], [255 << 8, 65535]], dtype=np.uint16))
    decoded = np.asarray(decode_image(encoded(grey, "PNG"), LIMITS))
    assert decoded[..., 0].tolist() == [[0, 128], [255, 255]]


def test_the_first_frame_of_an_animation_is_taken() -> None:
    data = encoded(
        Image.new("RGB", (9, 9), "red"),
        "WEBP",
        save_all=True,
        lossless=True,
        append_images=[Image.new("RGB", (9, 9), "blue")],
    )
    assert decode_image(data, LIMITS).getpixel((4, 4)) == (255, 0, 0)


def test_pixel_values_equal_those_of_clip(tmp_path: Path) -> None:
    values = preprocessing(tmp_path).pixel_values(Image.new("RGB", (30, 20), (255, 0, 51)))
    assert values.shape == (3, 8, 8)
    assert values.dtype == np.float32
    expected = (np.array([1.0, 0.0, 0.2]) - CLIP_MEAN) / CLIP_STD
    np.testing.assert_allclose(values, np.broadcast_to(expected[:, None, None], (3, 8, 8)), atol=1e-6)


@pytest.mark.parametrize("size", [(64, 48), (48, 64), (8, 8), (5, 3), (1, 1), (801, 100)])
def test_the_centre_is_cropped(tmp_path: Path, size: tuple[int, int]) -> None:
    values = preprocessing(tmp_path).pixel_values(picture(*size))
    assert values.shape == (3, 8, 8)
    if size[0] > 8:
        # Red to the left, blue to the right: the crop is in the middle.
        assert values[0, :, 0].mean() > values[0, :, -1].mean()
        assert values[2, :, 0].mean() < values[2, :, -1].mean()
        np.testing.assert_allclose(values[0, :, :3].mean(), values[0, :, 0].mean(), atol=0.2)


@pytest.mark.parametrize("size", [(1, 100_000), (100_000, 1), (3, 90_000)])
def test_a_strip_costs_no_more_than_its_middle(tmp_path: Path, size: tuple[int, int]) -> None:
    tracemalloc.start()
    values = preprocessing(tmp_path, 224, 224).pixel_values(Image.new("RGB", size, "white"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert values.shape == (3, 224, 224)
    assert peak < 50_000_000


def test_cutting_a_strip_does_not_change_its_middle(tmp_path: Path) -> None:
    step = preprocessing(tmp_path, 16, 16)
    strip = noise(160, 16)
    np.testing.assert_allclose(
        step.pixel_values(strip), step.pixel_values(strip.crop((16, 0, 144, 16))), atol=1e-6
    )
