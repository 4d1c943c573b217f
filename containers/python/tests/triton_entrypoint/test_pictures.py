"""Pictures of a request to `preprocessing` become pixels of the model's image processor, frames of a video
the tensor that the template takes, several pictures tiles with a token for each of their features, features
of several pictures one table, and pictures of llmapi a part of its prompt, in a real Triton."""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import numpy.typing as npt
import PIL.Image
import pytest
import tritonclient.http as triton
from encoder_server import running_server
from entrypoint_image import Image
from models.encoders.image_input import ImageLimits, Preprocessing, decode_image
from tritonclient.utils import InferenceServerException

VILA, ONEVISION = "multimodal-guide.vila", "multimodal-guide.onevision"
LLMAPI = "llmapi-pictures.eyes"
FIXTURES = Path(__file__).parents[1] / "fixtures"
MARK = "<|vision_start|><|image_pad|><|vision_end|>"
NAMES = ("rocket", "coffee")
SAMPLES = Path(__file__).parents[2] / "engine_room/encoder_builder/samples/images-1"
LIMITS = ImageLimits(max_bytes=10 * 2**20, max_pixels=40_000_000)
# The tensors of NVIDIA's that matter here, as its config.pbtxt has them from 0.15 on.
CONFIG = """name: "preprocessing"
backend: "python"
max_batch_size: ${triton_max_batch_size}
input [
  { name: "QUERY" data_type: TYPE_STRING dims: [ 1 ] },
  { name: "IMAGE_URL" data_type: TYPE_STRING dims: [ 1 ] optional: true },
  { name: "VIDEO_BYTES" data_type: TYPE_UINT8 dims: [ -1, -1, -1, -1 ] optional: true }
]
output [
  { name: "INPUT_ID" data_type: TYPE_INT32 dims: [ -1 ] },
  { name: "PIXEL_VALUES" data_type: TYPE_FP16 dims: [ -1, -1, -1, -1 ] },
  { name: "IMAGE_SIZES" data_type: TYPE_INT64 dims: [ 2 ] }
]
instance_group [ { count: 1 kind: KIND_CPU } ]
"""
# Like NVIDIA's, it stops at pictures of models that it has no processor for.
MODEL = """import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.queries = 0

    def execute(self, requests):
        responses = []
        for request in requests:
            assert pb_utils.get_input_tensor_by_name(request, "IMAGE_URL") is None, "no preprocessor"
            query = pb_utils.get_input_tensor_by_name(request, "QUERY").as_numpy()
            lengths = np.array([[len(row[0])] for row in query], dtype=np.int32)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("INPUT_ID", lengths)]))
        return responses
"""

ENCODERS_CONFIG = """name: "multimodal_encoders"
backend: "python"
max_batch_size: ${triton_max_batch_size}
dynamic_batching { max_queue_delay_microseconds: ${max_queue_delay_microseconds} }
input [
  { name: "pixel_values" data_type: TYPE_FP16 dims: [ -1, -1, -1, -1 ] },
  { name: "image_sizes" data_type: TYPE_INT64 dims: [ 2 ] optional: true }
]
output [ { name: "OUT_PROMPT_EMBEDDING_TABLE" data_type: TYPE_FP16 dims: [ -1, -1 ] } ]
instance_group [ { count: 1 kind: KIND_CPU } ]
"""
# Like NVIDIA's from TensorRT-LLM 0.19 on, it answers each picture; its features are the first channel.
ENCODERS = """import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        pass

    def execute(self, requests):
        sent = [pb_utils.get_input_tensor_by_name(one, "pixel_values").as_numpy() for one in requests]
        features = np.concatenate([pixels[:, :, 0].reshape(-1, *pixels.shape[3:]) for pixels in sent])
        prompts, pictures = zip(*(pixels.shape[:2] for pixels in sent))
        skipped = [False] * len(sent)
        responses = self.postprocess_output_tensors(features, requests, prompts, pictures, skipped, {})
        assert len(responses) == len(requests), "a response of each picture"
        return responses

    def postprocess_output_tensors(self, features, requests, prompts, pictures, skipped, others):
        responses = []
        for index, feature in enumerate(features):
            is_one = pictures[index] == 1
            table = feature[None] if is_one else feature.reshape(prompts[index], -1, feature.shape[-1])
            tensor = pb_utils.Tensor("OUT_PROMPT_EMBEDDING_TABLE", np.ascontiguousarray(table))
            responses.append(pb_utils.InferenceResponse([tensor]))
        return responses
"""

Floats = npt.NDArray[np.float32]


class Server:
    """A client of the server."""

    def __init__(self, address: str, preprocess: Path) -> None:
        self._client = triton.InferenceServerClient(address)
        self._preprocess = preprocess

    def ask(self, prompts: Sequence[str], pictures: Sequence[str] = ()) -> triton.InferResult:
        """One text of pictures a prompt."""
        inputs = [self._texts("QUERY", prompts)]
        if pictures:
            inputs.append(self._texts("IMAGE_URL", pictures))
        return self._client.infer("preprocessing", inputs)

    def pixels(self, name: str) -> Floats:
        """The processor's pixels of a sample."""
        image = decode_image((SAMPLES / f"{name}.jpg").read_bytes(), LIMITS)
        return Preprocessing(self._preprocess).pixel_values(image)

    @staticmethod
    def _texts(name: str, texts: Sequence[str]) -> triton.InferInput:
        tensor = triton.InferInput(name, [len(texts), 1], "BYTES")
        tensor.set_data_from_numpy(np.array([[text.encode()] for text in texts], dtype=np.object_))
        return tensor


def data_url(name: str) -> str:
    """As the clients send any file."""
    content = (SAMPLES / f"{name}.jpg").read_bytes()
    return f"data:image/jpeg;base64,{base64.b64encode(content).decode()}"


def png(width: int, height: int | None = None) -> str:
    """A grey picture, as high as wide if nothing else is said."""
    file = BytesIO()
    PIL.Image.new("RGB", (width, width if height is None else height), "grey").save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def frames(*names: str) -> str:
    """As the clients send a video."""
    files = [(SAMPLES / f"{name}.jpg").read_bytes() for name in names]
    return f"data:video/jpeg;base64,{','.join(base64.b64encode(file).decode() for file in files)}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with planned_server(tmp_path_factory.mktemp("image"), VILA, MODEL) as running:
        yield running


@pytest.fixture(scope="module")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[triton.InferenceServerClient]:
    image = planned(tmp_path_factory.mktemp("image"), VILA, ("multimodal", ENCODERS_CONFIG, ENCODERS))
    with (
        running_server(image.repository) as addresses,
        triton.InferenceServerClient(addresses.http, concurrency=8) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def encoders_of_tiles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[triton.InferenceServerClient]:
    template = ("multimodal", ENCODERS_CONFIG, (FIXTURES / "tiled_encoders.py").read_text())
    image = planned(tmp_path_factory.mktemp("image"), ONEVISION, template)
    with (
        running_server(image.repository) as addresses,
        triton.InferenceServerClient(addresses.http) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def onevision(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    model = (FIXTURES / "tiled_preprocessing.py").read_text()
    with planned_server(tmp_path_factory.mktemp("image"), ONEVISION, model) as running:
        yield running


@pytest.fixture(scope="module")
def llmapi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    # The plan has its config.pbtxt.
    template = ("llmapi", 'name: "tensorrt_llm"', (FIXTURES / "llmapi_model.py").read_text())
    image = planned(tmp_path_factory.mktemp("image"), LLMAPI, template)
    with running_server(image.repository, stops_in_order=True) as addresses:
        yield f"http://{addresses.http}/v2/models/tensorrt_llm"


@contextmanager
def planned_server(tmp_path: Path, spec: str, model: str, **changed: int) -> Iterator[Server]:
    """`changed`: fields of preprocess.json that differ from the plan's."""
    image = planned(tmp_path, spec, ("inflight_batcher_llm", CONFIG, model))
    preprocess = image.repository / "preprocessing/1/preprocess.json"
    fields = json.loads(preprocess.read_bytes())
    preprocess.chmod(0o644)
    preprocess.write_text(json.dumps({**fields, **changed}))
    # A request may have two prompts, where the plan has a single too.
    config = image.repository / "preprocessing/config.pbtxt"
    config.chmod(0o644)
    config.write_text(re.sub(r"(?m)^max_batch_size: 1$", "max_batch_size: 2", config.read_text()))
    with running_server(image.repository) as addresses:
        yield Server(addresses.http, preprocess)


def planned(tmp_path: Path, spec: str, template: tuple[str, str, str]) -> Image:
    """Only the planned folder, which the entry point fills from a template with NVIDIA's tensors."""
    group, config, model = template
    name = config.split('"')[1]
    image = Image(tmp_path, spec)
    root = Path(image.spec["repository"]["allModels"]) / group / name
    (root / "config.pbtxt").chmod(0o644)
    (root / "config.pbtxt").write_text(config)
    (root / "1").mkdir(exist_ok=True)
    (root / "1/model.py").write_text(model)
    ended = image.check()
    assert ended.code == 0, ended.said
    for folder in image.repository.iterdir():
        if folder.is_dir() and folder.name != name:
            shutil.rmtree(folder)
    return image


def test_a_picture_becomes_pixels_and_the_rest_is_answered_by_nvidias_template(server: Server) -> None:
    answer = server.ask(["what is this"], [data_url("coffee")])
    assert answer.as_numpy("INPUT_ID").tolist() == [[12]]
    expected = server.pixels("coffee").astype(np.float16)
    assert expected.shape == (3, 384, 384)
    assert np.array_equal(answer.as_numpy("PIXEL_VALUES"), expected[None, None])


def test_two_pictures_come_in_one_text(server: Server) -> None:
    answer = server.ask(["a"], [f"{data_url('rocket')} {data_url('chelsea')}"])
    expected = np.stack([server.pixels("rocket"), server.pixels("chelsea")]).astype(np.float16)
    assert np.array_equal(answer.as_numpy("PIXEL_VALUES"), expected[None])


def test_each_prompt_has_its_own_picture(server: Server) -> None:
    answer = server.ask(["a", "bb"], [data_url("rocket"), data_url("chelsea")])
    assert answer.as_numpy("INPUT_ID").tolist() == [[1], [2]]
    assert answer.as_numpy("PIXEL_VALUES").shape == (2, 1, 3, 384, 384)


def test_a_request_without_pictures_is_answered_by_nvidias_template(server: Server) -> None:
    answer = server.ask(["abc"])
    assert answer.as_numpy("INPUT_ID").tolist() == [[3]]
    assert answer.as_numpy("PIXEL_VALUES") is None


@pytest.mark.parametrize(
    ("picture", "sentence"),
    [
        (
            "data:image/jpeg;base64,/9j/4AAQ",
            "image 1 of the request is refused: it is not a readable JPEG",
        ),
        (data_url("coffee")[:-4000], "image 1 of the request is refused: it is damaged"),
        (
            f"{data_url('coffee')} hello",
            "image 2 of the request is refused: it is not a readable JPEG",
        ),
        (
            " ".join([data_url("brick")] * 5),
            "has 5 images, and this model is served with 4 at most; send fewer.",
        ),
        ("", "needs the same number of images, at least one"),
        ("data:image/jpeg;base64," + "A" * 14_000_000, "bytes, at most 10485760 are accepted"),
        (
            "http://127.0.0.1:9/a.png",
            "image 1 of the request is refused: its address can't be fetched: <urlopen"
            " error 127.0.0.1 is not public; send a data URL",
        ),
    ],
)
def test_other_files_than_pictures_are_refused(server: Server, picture: str, sentence: str) -> None:
    with pytest.raises(InferenceServerException, match=re.escape(sentence)):
        server.ask(["a"], [picture])


@pytest.mark.parametrize("name", ["server", "onevision"])
def test_a_refused_picture_is_counted_over_all_prompts(request: pytest.FixtureRequest, name: str) -> None:
    asked: Server = request.getfixturevalue(name)
    with pytest.raises(InferenceServerException, match="image 2 of the request is refused"):
        asked.ask(["a", "b"], [data_url("brick"), "data:image/jpeg;base64,/9j/4AAQ"])


def test_frames_become_the_templates_tensor(onevision: Server) -> None:
    names = ("rocket", "rocket", "rocket")
    answer = onevision.ask(["a"], [frames(*names)])
    picture = np.asarray(decode_image((SAMPLES / "rocket.jpg").read_bytes(), LIMITS))
    assert np.array_equal(answer.as_numpy("PIXEL_VALUES"), np.stack([picture] * 3)[None].astype(np.float16))


@pytest.mark.parametrize(
    ("size", "seen", "tiles", "tokens"),
    [
        ((300, 300), (300, 300), 2, 1485),
        ((768, 768), (768, 768), 5, 3699),
        # 7371 tokens of 10 tiles, and a request has 7299 of 16.
        ((1000, 1000), (768, 768), 5, 3699),
        # 7284 tokens of 19 tiles.
        ((2304, 1152), (1152, 576), 7, 5157),
        ((3000, 3000), (768, 768), 5, 3699),
    ],
)
def test_a_picture_alone_has_the_tiles_and_tokens_that_fit(
    onevision: Server, size: tuple[int, int], seen: tuple[int, int], tiles: int, tokens: int
) -> None:
    answer = onevision.ask(["a"], [png(*size)])
    assert answer.as_numpy("INPUT_ID").tolist() == [[tokens]]
    assert answer.as_numpy("PIXEL_VALUES").shape == (1, tiles, 3, 1, 1)
    assert answer.as_numpy("IMAGE_SIZES").tolist() == [[*reversed(seen)]]


def test_a_picture_that_fits_in_no_size_is_refused_with_its_numbers(tmp_path: Path) -> None:
    model = (FIXTURES / "tiled_preprocessing.py").read_text()
    sentence = (
        "The image has 1485 tokens and 2 tiles even with edges of at most 384 pixels, and this model is"
        " served with 1484 tokens and 16 tiles at most; raise limits.maxInputTokens"
    )
    with (
        planned_server(tmp_path, ONEVISION, model, maxTokens=1484) as server,
        pytest.raises(InferenceServerException, match=re.escape(sentence)),
    ):
        server.ask(["a"], [png(1000)])


@pytest.mark.parametrize("names", [("rocket", "coffee"), ("coffee", "brick", "rocket", "chelsea")])
def test_each_of_several_pictures_is_one_tile(onevision: Server, names: tuple[str, ...]) -> None:
    answer = onevision.ask(["a"], [" ".join(data_url(name) for name in names)])
    assert answer.as_numpy("INPUT_ID").tolist() == [[730 * len(names)]]
    # A square of it, with grey at its shorter sides.
    expected = []
    for name in names:
        picture = decode_image((SAMPLES / f"{name}.jpg").read_bytes(), LIMITS)
        share = picture.width * picture.height / max(picture.size) ** 2
        expected.append(share * np.asarray(picture).mean((0, 1)) + (1 - share) * 127)
    pixels = answer.as_numpy("PIXEL_VALUES")
    assert pixels.shape == (1, len(names), 3, 1, 1)
    assert np.allclose(pixels.reshape(-1, 3), expected, atol=1)


def test_a_strip_is_one_of_several_pictures(onevision: Server) -> None:
    strip = png(30_000, 1)
    assert onevision.ask(["a"], [f"{strip} {strip}"]).as_numpy("INPUT_ID").tolist() == [[1460]]


@pytest.mark.parametrize(
    ("pictures", "sentence"),
    [
        (f"{data_url('coffee')} hello", "image 2 of the request is refused: it is not a readable JPEG"),
        (
            " ".join([data_url("brick")] * 5),
            "has 5 images, and this model is served with 4 at most; send fewer.",
        ),
        ("", "needs the same number of images, at least one"),
        ("http://127.0.0.1:9/a.png", "image 1 of the request is refused: its address can't be fetched"),
    ],
)
def test_what_has_no_tiles_is_refused_with_a_sentence(
    onevision: Server, pictures: str, sentence: str
) -> None:
    with pytest.raises(InferenceServerException, match=re.escape(sentence)):
        onevision.ask(["a"], [pictures])


@pytest.mark.parametrize(
    ("video", "sentence"),
    [
        (frames("rocket", "chelsea"), "The frames of the video differ in size; make them alike."),
        (frames(*["rocket"] * 17), "The video has 17 frames, and this model takes 16 at most; send fewer."),
        (f"{frames('rocket')},", "frame 2 of the video is refused: it is not a readable JPEG"),
        (f"{frames('rocket')},=", "frame 2 of the video is refused: "),
        (frames("rocket")[:-4000], "frame 1 of the video is refused: it is damaged"),
        ("data:video/mp4;base64,AAAA", "image 1 of the request is refused: it is a data URL of another form"),
    ],
)
def test_other_files_than_videos_are_refused(onevision: Server, video: str, sentence: str) -> None:
    with pytest.raises(InferenceServerException, match=re.escape(sentence)):
        onevision.ask(["a"], [video])


def test_each_request_has_one_table_of_all_its_pictures(encoders: triton.InferenceServerClient) -> None:
    shapes = [(1, 2), (1, 1), (1, 4), (2, 1), (2, 2)]
    sent = [
        np.random.default_rng(index).random((*shape, 3, 7, 5)).astype(np.float16)
        for index, shape in enumerate(shapes)
    ]

    def asked(pixels: npt.NDArray[np.float16]) -> triton.InferAsyncRequest:
        tensor = triton.InferInput("pixel_values", list(pixels.shape), "FP16")
        tensor.set_data_from_numpy(pixels)
        return encoders.async_infer("multimodal_encoders", [tensor])

    for pixels, answer in zip(sent, [asked(pixels) for pixels in sent], strict=True):
        prompts, pictures = pixels.shape[:2]
        expected = pixels[:, :, 0].reshape(prompts, pictures * 7, 5)
        assert np.array_equal(answer.get_result().as_numpy("OUT_PROMPT_EMBEDDING_TABLE"), expected)


@pytest.mark.parametrize(("size", "tiles", "pictures"), [(500, 2, 1), (10**6, 2, 2), (10**6, 4, 4)])
def test_each_picture_of_several_tiles_ends_with_a_token(
    encoders_of_tiles: triton.InferenceServerClient, size: int, tiles: int, pictures: int
) -> None:
    pixels = np.random.default_rng(tiles).random((1, tiles, 3, 7, 5)).astype(np.float16)
    sent = {"pixel_values": ("FP16", pixels), "image_sizes": ("INT64", np.array([[size, size]]))}
    inputs = [triton.InferInput(name, list(value.shape), kind) for name, (kind, value) in sent.items()]
    for tensor, (_, value) in zip(inputs, sent.values(), strict=True):
        tensor.set_data_from_numpy(value)
    answer = encoders_of_tiles.infer("multimodal_encoders", inputs).as_numpy("OUT_PROMPT_EMBEDDING_TABLE")
    tables = answer.reshape(pictures, -1, 5)
    assert answer.shape[0] == 1
    assert np.array_equal(tables[:, :-1], pixels[0, :, 0].reshape(pictures, -1, 5))
    assert np.all(tables[:, -1] == -1)


def generated(model: str, pictures: str | list[str] | None = None, **fields: object) -> str:
    """The text of an answer, as the gateway asks for it, without the marks; or Triton's error."""
    sent = [] if pictures is None else [pictures] if isinstance(pictures, str) else pictures
    asked = {"text_input": MARK * len(sent) + "what", **({"image_url": pictures} if sent else {}), **fields}
    body = json.dumps(asked).encode()
    request = Request(f"{model}/generate", body, {"content-type": "application/json"})
    try:
        with urlopen(request, timeout=60) as response:
            answer = json.load(response)
    except HTTPError as refused:
        answer = json.load(refused)
    return str(answer.get("text_output") or answer["error"]).replace(MARK, "")


def test_pictures_are_beside_the_prompt_of_llmapi(llmapi: str) -> None:
    rocket, coffee = (decode_image((SAMPLES / f"{name}.jpg").read_bytes(), LIMITS) for name in NAMES)
    assert generated(llmapi) == "what None"
    assert generated(llmapi, sampling_param_max_tokens=3) == "what 3"
    assert generated(llmapi, data_url("rocket")) == f"what [{rocket.size}] None"
    both = [data_url(name) for name in NAMES]
    assert generated(llmapi, both) == f"what [{rocket.size}, {coffee.size}] None"


def test_requests_to_llmapi_keep_their_own_pictures(llmapi: str) -> None:
    sizes = {name: decode_image((SAMPLES / f"{name}.jpg").read_bytes(), LIMITS).size for name in NAMES}
    asked = [*NAMES, None] * 8
    with ThreadPoolExecutor(len(asked)) as pool:
        answers = pool.map(lambda name: generated(llmapi, None if name is None else data_url(name)), asked)
    expected = ["what None" if name is None else f"what [{sizes[name]}] None" for name in asked]
    assert list(answers) == expected


def test_large_pictures_for_llmapi_have_the_planned_tokens(llmapi: str) -> None:
    # 41 x 30 squares of 28 pixels: 1230 of 1280 tokens.
    assert generated(llmapi, png(4000, 3000)) == "what [(1148, 840)] None"


@pytest.mark.parametrize(
    ("pictures", "sentence"),
    [
        (["data:image/jpeg;base64,/9j/4AAQ"], "image 1 of the request is refused: it is not a readable JPEG"),
        (
            [data_url("rocket"), "http://127.0.0.1:9/a.png"],
            "image 2 of the request is refused: its address can't be fetched: <urlopen error 127.0.0.1 is not"
            " public",
        ),
        (
            [data_url("brick")] * 5,
            "The request has 5 images, and this model is served with 4 at most; send fewer.",
        ),
    ],
)
def test_what_llmapi_can_t_see_is_refused_with_a_sentence(
    llmapi: str, pictures: list[str], sentence: str
) -> None:
    assert sentence in generated(llmapi, pictures)


def test_a_prompt_without_a_mark_for_each_picture_is_refused(llmapi: str) -> None:
    # As a client of NVIDIA's guide asks, whose server writes the marks by itself.
    assert f"The prompt has the mark {MARK} 0 times, and the request 1 image".replace(MARK, "") in generated(
        llmapi, data_url("brick"), text_input="what"
    )
    sentence = f"The prompt has the mark {MARK} 1 times, and the request 0 images".replace(MARK, "")
    assert sentence in generated(llmapi, text_input=f"{MARK}what")
