"""any_names.py write FILE.safetensors | check FILE.pt: tensors whose names no module could have.

check reads what `kolo checkpoint convert` makes of the first file as Python's torch.load(weights_only=True) would: it
imports nothing but what is listed, and the archive's names, shapes and bytes must be right.
"""
import json
import pickle
import struct
import sys
import zipfile

NAMES = ["w", "layer.in.weight", "global", "None", "a", "a.b", ".a", "a.", "", ".", "tensor", "data/0", "quote'\"", "back\\slash",
         "line\nfeed", "\u00fc \U0001f600", "1", "x" * 1000]
ALLOWED = {("torch._utils", "_rebuild_tensor_v2"), ("torch", "FloatStorage"), ("collections", "OrderedDict")}


def values_of(place):
    return [place + 0.25, -place]


def write(path):
    header, data = {}, b""
    for place, name in enumerate(NAMES):
        header[name] = {"dtype": "F32", "shape": [2], "data_offsets": [len(data), len(data) + 8]}
        data += struct.pack("<2f", *values_of(place))
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


class Reader(pickle.Unpickler):
    def __init__(self, archive):
        self.folder = archive.namelist()[0].split("/")[0]
        self.archive = archive
        super().__init__(archive.open(self.folder + "/data.pkl"))

    def find_class(self, module, name):
        assert (module, name) in ALLOWED, (module, name)
        return dict if name == "OrderedDict" else rebuild if name.startswith("_rebuild") else name

    def persistent_load(self, pid):
        kind, storage, key, place, elements = pid
        assert (kind, storage, place) == ("storage", "FloatStorage", "cpu"), pid
        data = self.archive.read("{}/data/{}".format(self.folder, key))
        assert len(data) == 4 * elements, (key, len(data))
        return list(struct.unpack("<{}f".format(elements), data))


def rebuild(storage, offset, size, stride, requires_grad, hooks):
    assert (offset, size, stride, requires_grad, hooks) == (0, (2,), (1,), False, {})
    return storage


def check(path):
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        reader = Reader(archive)
        assert archive.read(reader.folder + "/byteorder") == b"little"
        state = reader.load()
    assert type(state) is dict and list(state) == NAMES, list(state)
    assert list(state.values()) == [values_of(place) for place in range(len(NAMES))], state
    print("all names are there")


{"write": write, "check": check}[sys.argv[1]](sys.argv[2])
