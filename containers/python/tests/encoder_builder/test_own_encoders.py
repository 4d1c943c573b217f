"""Encoders of a stack file's own rows: small ones of each family through `encoder_builder export`, with the
words of the plan (infra/plan/encoders/commands.ts), against the formulas."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from builder_process import Outcome, Workshop, workshop
from model_hub import Model
from PIL import Image
from reference import Matrix, clip_image_embedding, clip_text_embedding, sentence_embedding
from small_towers import (
    Tensors,
    TextShape,
    clip_text,
    safetensors,
    sentence_encoder,
    small_tokenizer,
)
from tokenizers import Tokenizer
from tokenizers.normalizers import Lowercase

from engine_room.cpu_models.clip_graph import ClipShape, seeded_clip
from engine_room.encoder_builder.samples import Feeds

REPOSITORY = "example/encoder"
REVISION = "3" * 40
TOKENIZER = small_tokenizer()
TOKENS = TOKENIZER.get_vocab_size()


@dataclass(frozen=True)
class Family:
    """A small encoder: its files on the hub, and its row in the plan."""

    tower: str
    graph: str
    dimension: int
    tensors: Tensors
    files: dict[str, Any]
    config: dict[str, object]
    expected: Callable[[Tensors, dict[str, Any]], Matrix]
    words: tuple[str, ...] = field(default=())

    def hub(self) -> dict[str, bytes]:
        """Files by path."""
        documents = {path: json.dumps(content).encode() for path, content in self.files.items()}
        weights = safetensors(self.tensors)
        return {
            **documents,
            "model.safetensors": weights,
            "tokenizer.json": TOKENIZER.to_str().encode(),
        }


def sentences(layers: int, width: int, heads: int, pooling: str, epsilon: float = 1e-12) -> Family:
    """A repository of sentence-transformers."""
    kind = "sentence_transformers.models"
    modes = {"cls": "pooling_mode_cls_token", "mean": "pooling_mode_mean_tokens"}
    sizes = {"hidden_size": width, "num_hidden_layers": layers, "vocab_size": TOKENS}
    return Family(
        tower="text",
        graph="classTokenPooling,normalize" if pooling == "cls" else "meanPooling,normalize",
        dimension=width,
        tensors=sentence_encoder(TOKENS, width, layers),
        files={
            "config.json": {
                "model_type": "bert",
                "hidden_act": "gelu",
                "num_attention_heads": heads,
                "layer_norm_eps": epsilon,
                "intermediate_size": 96,
                "max_position_embeddings": 77,
                **sizes,
            },
            "sentence_bert_config.json": {"max_seq_length": 64},
            "modules.json": [{"type": f"{kind}.{name}"} for name in ("Transformer", "Pooling")],
            "1_Pooling/config.json": {mode: name == pooling for name, mode in modes.items()},
        },
        config={"model_type": "bert", **sizes},
        expected=lambda tensors, feeds: sentence_embedding(
            tensors, feeds["input_ids"], feeds["attention_mask"], heads, epsilon, pooling
        ),
        words=("--max-tokens=32",),
    )


def clip(tower: str, activation: str | None, vision: ClipShape, text: TextShape) -> Family:
    """A CLIPModel of transformers; without an activation, config.json leaves out what is usual."""
    image_size = vision.patch * vision.grid
    act = {} if activation is None else {"hidden_act": activation}
    configs: dict[str, dict[str, object]] = {
        "vision_config": {
            "hidden_size": vision.width,
            "num_attention_heads": vision.width // 64,
            "image_size": image_size,
            "intermediate_size": vision.inner,
            "patch_size": vision.patch,
            "num_hidden_layers": vision.layers,
            **act,
        },
        "text_config": {
            "hidden_size": text.width,
            "num_attention_heads": text.width // 64,
            "intermediate_size": text.inner,
            "num_hidden_layers": text.layers,
            "vocab_size": TOKENS,
            **act,
        },
    }
    planned = {
        f"{name}.{key}": value
        for name, config in configs.items()
        for key, value in config.items()
        if key not in {"intermediate_size", "hidden_act"}
    }
    formula = activation or "quick_gelu"
    tensors = {**_lively(seeded_clip(1, vision)), **clip_text(TOKENS, text)}
    return Family(
        tower=tower,
        graph=("classToken" if tower == "vision" else "endOfText") + "Pooling,projection,normalize",
        dimension=vision.projection,
        tensors=tensors,
        files={
            "config.json": {"model_type": "clip", "projection_dim": vision.projection, **configs},
            "preprocessor_config.json": {
                "size": {"shortest_edge": image_size},
                "crop_size": image_size,
                "resample": 3,
                "image_mean": [0.5, 0.4, 0.3],
                "image_std": [0.2, 0.2, 0.1],
            },
        },
        config={
            "model_type": "clip",
            "projection_dim": vision.projection,
            "text_config.max_position_embeddings": 77,
            **planned,
        },
        expected=(
            (lambda tensors, feeds: clip_image_embedding(tensors, feeds["pixel_values"], formula))
            if tower == "vision"
            else lambda tensors, feeds: clip_text_embedding(
                tensors, feeds["input_ids"], feeds["attention_mask"], formula
            )
        ),
        words=("--max-tokens=77",) if tower == "text" else (),
    )


def _lively(tensors: Tensors) -> Tensors:
    """Large enough that every term of the formula shows."""
    return {name: one * np.float32(1 if "norm" in name else 6) for name, one in tensors.items()}


PATCH_16 = ClipShape(width=64, layers=2, patch=16, grid=2, inner=96, projection=32)
PATCH_14 = ClipShape(width=128, layers=3, patch=14, grid=3, inner=192, projection=40)
WIDE_TEXT = TextShape(width=128, layers=3, inner=160, projection=40)
FAMILIES = {
    "12 layers, mean": sentences(12, 48, 4, "mean"),
    "3 layers, first token": sentences(3, 64, 2, "cls", epsilon=1e-5),
    "6 layers, first token, heads of 8": sentences(6, 96, 12, "cls"),
    "CLIP, patch 16, images": clip("vision", None, PATCH_16, TextShape(64, 2, 96, 32)),
    "CLIP, patch 16, texts": clip("text", None, PATCH_16, TextShape(64, 2, 96, 32)),
    "LAION's CLIP, patch 14, images": clip("vision", "gelu", PATCH_14, WIDE_TEXT),
    "LAION's CLIP, patch 14, texts": clip("text", "gelu", PATCH_14, WIDE_TEXT),
}


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Workshop]:
    with workshop(tmp_path) as one:
        yield one


def words_of(family: Family, folder: Path) -> list[str]:
    """As the plan has them."""
    is_vision = family.tower == "vision"
    files = [path for path in sorted(family.hub()) if not is_vision or path != "tokenizer.json"]
    return [
        *("export", f"--repository={REPOSITORY}", f"--revision={REVISION}"),
        *(f"--file={path}" for path in files),
        *(f"--tower={family.tower}", f"--graph={family.graph}"),
        f"--inputs={'pixel_values' if is_vision else 'input_ids,attention_mask'}",
        f"--output={'image' if is_vision else 'text'}_embedding",
        f"--dimension={family.dimension}",
        *(f"--config={path}={value}" for path, value in family.config.items()),
        *family.words,
        *("--data-type=float32", "--opset=17", f"--weights={folder}/weights/own/{REVISION}"),
        *(f"--assets={folder}/own", f"--onnx={folder}/own/model.onnx"),
    ]


def export(shop: Workshop, family: Family, files: dict[str, bytes]) -> Outcome:
    shop.hub.models[REPOSITORY] = Model(REVISION, files)
    return shop.run(words_of(family, shop.store))


def feeds_of(family: Family) -> Feeds:
    random = np.random.RandomState(5)
    if family.tower == "vision":
        size = family.files["preprocessor_config.json"]["crop_size"]
        return {"pixel_values": random.standard_normal((3, 3, size, size)).astype(np.float32)}
    mask = np.array([[1] * 9, [1] * 5 + [0] * 4, [1] + [0] * 8], dtype=np.int32)
    return {"input_ids": random.randint(0, TOKENS, mask.shape).astype(np.int32), "attention_mask": mask}


@pytest.mark.parametrize("name", FAMILIES)
def test_an_own_encoder_computes_what_its_source_does(shop: Workshop, name: str) -> None:
    family = FAMILIES[name]
    outcome = export(shop, family, family.hub())
    assert outcome.code == 0, outcome.lines
    feeds = feeds_of(family)
    session = onnxruntime.InferenceSession(shop.store / "own/model.onnx", providers=["CPUExecutionProvider"])
    expected = family.expected(family.tensors, feeds)
    np.testing.assert_allclose(session.run(None, feeds)[0], expected, atol=2e-5)
    # The rows differ enough for the comparison to mean something.
    assert (expected @ expected.T)[0, 1] < 0.999
    if family.tower == "vision":
        preprocess = json.loads((shop.store / "own/preprocess.json").read_bytes())
        assert preprocess["mean"] == family.files["preprocessor_config.json"]["image_mean"]
    # Present files of the commit are not fetched again.
    before = len(shop.hub.transfers)
    assert shop.run(words_of(family, shop.store)).code == 0
    assert len(shop.hub.transfers) == before


Change = Callable[[dict[str, Any]], object]


def _replace(**values: Any) -> Change:
    def change(one: dict[str, Any]) -> None:
        one.clear()
        one.update(values)

    return change


MEAN, IMAGES = "12 layers, mean", "CLIP, patch 16, images"
REFUSED: dict[str, tuple[str, str, Change, str]] = {
    "mpnet": (MEAN, "config.json", lambda one: one.update(model_type="mpnet"), 'model_type "mpnet"'),
    "layers": (MEAN, "config.json", lambda one: one.update(num_hidden_layers=6), "num_hidden_layers 6"),
    "activation": (MEAN, "config.json", lambda one: one.update(hidden_act="relu"), "hidden_act gelu"),
    "positions": (
        MEAN,
        "config.json",
        lambda one: one.update(position_embedding_type="relative_key"),
        "absolute positions",
    ),
    "pooling": (
        MEAN,
        "1_Pooling/config.json",
        lambda one: one.update(pooling_mode_cls_token=True),
        "cls, mean, and the plan has pooling mean",
    ),
    "maximum": (
        MEAN,
        "1_Pooling/config.json",
        lambda one: one.update(pooling_mode_mean_tokens=False, pooling_mode_max_tokens=True),
        "pooling_mode_max_tokens, and",
    ),
    "length": (
        MEAN,
        "sentence_bert_config.json",
        lambda one: one.update(max_seq_length=16),
        "max_seq_length 16, .* the plan cuts texts at 32 tokens",
    ),
    "heads": (MEAN, "config.json", lambda one: one.update(num_attention_heads=5), "num_attention_heads 5"),
    "no heads": (MEAN, "config.json", lambda one: one.pop("num_attention_heads"), "num_attention_heads null"),
    "epsilon": (MEAN, "config.json", lambda one: one.update(layer_norm_eps="tiny"), "layer_norm_eps"),
    "case": (
        MEAN,
        "sentence_bert_config.json",
        lambda one: one.update(do_lower_case=True),
        "do_lower_case, and tokenizer.json",
    ),
    "newer pooling": (
        MEAN,
        "1_Pooling/config.json",
        _replace(pooling_mode=["cls", "mean"]),
        "cls, mean, and the plan has pooling mean",
    ),
    "brightness": (
        IMAGES,
        "preprocessor_config.json",
        lambda one: one.update(rescale_factor=1.0),
        "rescale_factor 1.0, not",
    ),
    "patch": (
        IMAGES,
        "config.json",
        lambda one: one["vision_config"].update(patch_size=32),
        r"vision_config.patch_size 32 \(the plan: 16\)",
    ),
    "older dictionary": (
        IMAGES,
        "config.json",
        lambda one: one.update(text_config_dict={"hidden_size": 96}),
        "text_config.hidden_size 96",
    ),
    "tower's activation": (
        IMAGES,
        "config.json",
        lambda one: one["vision_config"].update(hidden_act="gelu_new"),
        "hidden_act gelu_new",
    ),
    "square": (
        IMAGES,
        "preprocessor_config.json",
        lambda one: one.update(crop_size=30),
        "crop_size 30, not 32",
    ),
    "bilinear": (IMAGES, "preprocessor_config.json", lambda one: one.update(resample=2), "resample 2, not 3"),
    "channels": (
        IMAGES,
        "preprocessor_config.json",
        lambda one: one.update(image_mean=0.5),
        "0.5 for three channels",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_files_that_differ_from_the_row_are_refused(shop: Workshop, name: str) -> None:
    which, path, change, words = REFUSED[name]
    family = FAMILIES[which]
    document = json.loads(json.dumps(family.files[path]))
    change(document)
    outcome = export(shop, family, {**family.hub(), path: json.dumps(document).encode()})
    assert outcome.code == 2, outcome.lines
    assert re.search(words, outcome.named("failed")[0]["message"]), outcome.lines
    assert not (shop.store / "own/model.onnx").exists()


def test_files_of_newer_releases_of_sentence_transformers_are_read(shop: Workshop) -> None:
    family = FAMILIES[MEAN]
    lowering = Tokenizer.from_str(TOKENIZER.to_str())
    lowering.normalizer = Lowercase()
    newer = {
        "1_Pooling/config.json": b'{"embedding_dimension": 48, "pooling_mode": "mean"}',
        "sentence_bert_config.json": b'{"do_lower_case": true}',
        "tokenizer.json": lowering.to_str().encode(),
    }
    outcome = export(shop, family, {**family.hub(), **newer})
    assert outcome.code == 0, outcome.lines


def test_texts_longer_than_the_table_of_positions_are_refused(shop: Workshop) -> None:
    family = replace(FAMILIES[MEAN], words=("--max-tokens=100",))
    outcome = export(shop, family, {**family.hub(), "sentence_bert_config.json": b'{"max_seq_length": 128}'})
    assert outcome.code == 2, outcome.lines
    assert "write maxTokens: 77" in outcome.named("failed")[0]["message"]


def test_a_dense_module_is_refused(shop: Workshop) -> None:
    family = FAMILIES[MEAN]
    modules = [
        {"type": f"sentence_transformers.models.{name}"} for name in ("Transformer", "Pooling", "Dense")
    ]
    outcome = export(shop, family, {**family.hub(), "modules.json": json.dumps(modules).encode()})
    assert "has Dense; a sentence encoder is built of" in outcome.named("failed")[0]["message"]


PROMPTS = "config_sentence_transformers.json"
E5 = {"query": "query: ", "passage": "passage: "}
QUERY, DOCUMENT = "--prefix=query=query: ", "--prefix=document=passage: "
# The repository's prompts (None: it has no such file) and the row's words, with those of the refusal.
PREFIXES: dict[str, tuple[object, tuple[str, ...], str | None]] = {
    "no file": (None, (QUERY, DOCUMENT), None),
    "no file, no prefixes": (None, (), None),
    "no prompts": ({}, (QUERY, DOCUMENT), None),
    "empty prompts": ({"query": "", "document": ""}, (), None),
    "the same": (E5, (QUERY, DOCUMENT), None),
    "meant to be none": (E5, ("--prefix=query=", "--prefix=document="), None),
    "searches only": ({"query": "query: ", "passage": ""}, (QUERY,), None),
    "other names": ({"s2p_query": "Find: "}, (QUERY,), None),
    "lacking": (E5, (), 'has no prefixes, .* prefixes: { query: "query: ", document: "passage: " };'),
    "lacking, other names": ({"s2p_query": "Find: "}, (), '"s2p_query": "Find: ".* has no prefixes'),
    "lacking for documents": (E5, (QUERY,), 'has prefixes {"query": "query: "}'),
    "different": (E5, ("--prefix=query=query:", DOCUMENT), 'has prefixes {"query": "query:", "document"'),
    "strange": ({"query": 1}, (QUERY,), "prompts that are not texts by names"),
    "a list": (["query: "], (QUERY,), "prompts that are not texts by names"),
    "long": (None, (f"--prefix=query={'a ' * 99}",), "query prefix .* texts are cut at 32"),
}


@pytest.mark.parametrize("name", PREFIXES)
def test_prefixes_that_differ_from_the_repositorys_prompts_are_refused(shop: Workshop, name: str) -> None:
    prompts, prefixes, says = PREFIXES[name]
    family = replace(FAMILIES[MEAN], words=("--max-tokens=32", *prefixes))
    about = {} if prompts is None else {PROMPTS: json.dumps({"prompts": prompts}).encode()}
    shop.hub.models[REPOSITORY] = Model(REVISION, {**family.hub(), **about})
    outcome = shop.run(words_of(family, shop.store))
    assert outcome.code == (0 if says is None else 2), outcome.lines
    assert (shop.store / "own/model.onnx").exists() == (says is None)
    if says is not None:
        assert re.search(says, outcome.named("failed")[0]["message"]), outcome.lines


def test_a_stored_copy_without_prompts_is_looked_up_once(shop: Workshop) -> None:
    family = FAMILIES[MEAN]
    assert export(shop, family, family.hub()).code == 0
    shop.hub.forget()
    assert shop.run(words_of(family, shop.store)).code == 0
    assert shop.hub.hub.requests == []
    # As builders before left it.
    manifest = shop.store / f"weights/own/{REVISION}/manifest.json"
    record = json.loads(manifest.read_bytes())
    assert record.pop("absent") == [PROMPTS]
    manifest.write_text(json.dumps(record))
    shop.hub.models[REPOSITORY].files[PROMPTS] = json.dumps({"prompts": E5}).encode()
    outcome = shop.run(words_of(family, shop.store))
    assert outcome.code == 2, outcome.lines
    assert not shop.hub.transfers


def calibrate(shop: Workshop, name: str, samples: Path | str) -> Outcome:
    export(shop, FAMILIES[name], FAMILIES[name].hub())
    graph = shop.store / "own"
    return shop.run(
        [
            "calibrate",
            f"--samples={samples}",
            f"--onnx={graph}/model.onnx",
            f"--output={graph}/model.qdq.onnx",
        ]
    )


def picture(path: Path, size: tuple[int, int] = (64, 48)) -> None:
    path.parent.mkdir(exist_ok=True)
    pixels = np.random.RandomState(3).randint(0, 256, (size[1], size[0], 3)).astype(np.uint8)
    Image.fromarray(pixels).save(path)


def pictures(folder: Path, count: int) -> Path:
    for number in range(count):
        picture(folder / f"{number}.png", (2, 2))
    return folder


def test_scales_come_from_a_stacks_own_samples(shop: Workshop) -> None:
    texts = shop.folder / "texts.txt"
    texts.write_text("a cat on a sofa\n\na dog\n")
    picture(shop.folder / "pictures" / "one.png")
    picture(shop.folder / "pictures" / "two.JPG")
    for name, own, usual, rows in (
        (MEAN, texts, "texts-1", 2),
        (IMAGES, shop.folder / "pictures", "images-1", 4),
    ):
        graphs = []
        for samples in (own, usual):
            outcome = calibrate(shop, name, samples)
            assert outcome.code == 0, outcome.lines
            graphs.append((shop.store / "own/model.qdq.onnx").read_bytes())
            if samples is own:
                assert outcome.named("checked")[-1]["samples"] == rows
        assert graphs[0] != graphs[1]


UNFIT: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "absent": (MEAN, lambda _: None, "can't be read: No such file"),
    "empty": (MEAN, lambda path: path.write_text("\n\n"), "has 0 texts"),
    "many": (MEAN, lambda path: path.write_text("a\n" * 1001), "has 1001 texts"),
    "large": (MEAN, lambda path: path.write_text("a" * 2**22 + "\n"), "has more than 4194304 bytes"),
    "latin-1": (MEAN, lambda path: path.write_bytes(b"caf\xe9\n"), "is not UTF-8 at byte 3"),
    "no folder": (IMAGES, lambda path: path.write_text("a"), "can't be read: Not a directory"),
    "no pictures": (IMAGES, lambda path: path.mkdir(), "has 0 pictures"),
    "pictures": (
        IMAGES,
        lambda path: pictures(path, 129),
        "has 129 pictures",
    ),
    "pixels": (IMAGES, lambda path: picture(path / "a.png", (8000, 5001)), "has 8000 × 5001 pixels"),
    "damaged": (
        IMAGES,
        lambda path: (pictures(path, 1) / "a.jpg").write_bytes(b"no picture"),
        "can't be read as a picture",
    ),
}


@pytest.mark.parametrize("name", UNFIT)
def test_samples_that_do_not_fit_are_refused(shop: Workshop, name: str) -> None:
    family, make, words = UNFIT[name]
    make(shop.folder / "samples")
    outcome = calibrate(shop, family, shop.folder / "samples")
    assert outcome.code == 2, outcome.lines
    message = outcome.named("failed")[0]["message"]
    assert message.startswith(f"{shop.folder}/samples")
    assert words in message
    assert not (shop.store / "own/model.qdq.onnx").exists()
