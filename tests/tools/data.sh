#!/usr/bin/env bash
# data.sh BIN SOURCE: `kolo data` on files of NumPy's and Pillow's. Skipped (77) without them.
# Checksums of equal arrays are equal, so they show that a conversion kept every element.
# shellcheck source=../checks.sh
set -uo pipefail
bin=$1
. "$2/tests/checks.sh"
python=$2/.deps/venv/bin/python
"$python" -c 'import numpy, PIL' 2> /dev/null || { echo "SKIPPED: no NumPy and Pillow in .deps/venv"; exit 77; }
has() { [[ $1 == *"$2"* ]] || { printf '  has no\n%s\n  in\n%s\n' "$2" "$1"; return 1; }; }
show_failure() { printf '  code %s, error\n%s\n' "$code" "$(cat err.txt)"; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

data() { # data WORD...: runs it; the output is in $out, the exit code in $code
  out=$("$bin/kolo" data "$@" 2> err.txt)
  code=$?
}
checksum() { # checksum PATH ARRAY: that of the array's elements; without one a text that no other call has
  local sum
  sum=$("$bin/kolo" data verify "$1" | sed -nE "s/^  $2: .*checksum ([0-9a-f]{16}).*/\1/p")
  [[ $sum ]] || sum="no checksum of $2 in $1"
  echo "$sum"
}

"$python" - << 'END'
import gzip, os, struct
import numpy
from PIL import Image
random = numpy.random.default_rng(1)
images = random.integers(0, 256, (500, 3, 9, 7), dtype=numpy.uint8)
images[:, :, 3:] = 7
numpy.save("images.npy", images)
labels = random.integers(0, 10, 500)
numpy.save("labels.npy", labels)
numpy.save("few.npy", labels[:499])
with open("large.npy", "wb") as file:  # 5 GB, with holes
    numpy.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (1250, 1000000)})
    file.truncate(file.tell() + 5000000000)
with open("wide.csv", "w") as file:
    file.write(",".join(f"column{i:06d}" for i in range(8000)) + "\n" + ",".join(["1.5"] * 8000) + "\n")
with gzip.open("images.idx.gz", "wb") as file:
    file.write(struct.pack(">BBBBIIII", 0, 0, 8, 4, *images.shape) + images.tobytes())
numpy.savez("all.npz", x=images, y=labels)
numpy.savez("mixed.npz", a=labels, names=numpy.array(["x", "y"]), number=3, z=labels)
numpy.savez("broken.npz", a=labels, z=labels)
with open("broken.npz", "r+b") as file:  # a byte of the first array
    file.seek(1000)
    byte = file.read(1)[0]
    file.seek(1000)
    file.write(bytes([byte ^ 16]))
with gzip.open("images.npy.gz", "wb") as file:
    file.write(open("images.npy", "rb").read())
with open("table.txt", "w") as file:
    file.write("1;2\n3;4\n")
numpy.savez_compressed("small.npz", samples=images, targets=labels)
table = random.normal(size=(50, 3)).astype(numpy.float32)
numpy.save("table.npy", numpy.ascontiguousarray(table[:, [0, 2]]))
numpy.save("column.npy", table[:, 1])
with open("table.csv", "w") as file:
    file.write("first,second,third\n")
    for row in table:
        file.write(",".join(repr(float(cell)) for cell in row) + "\n")
x, y = numpy.meshgrid(numpy.arange(20), numpy.arange(16))
pixels = []
for name, shade in (("cat/1.jpg", 10), ("cat/2.png", 90), ("dog/1.jpeg", 200)):
    os.makedirs(os.path.dirname(name), exist_ok=True)
    image = Image.fromarray(numpy.stack([x * 12, y * 15, x * 0 + shade], 2).astype(numpy.uint8))
    image.save(name)
    pixels.append(numpy.asarray(Image.open(name).convert("RGB")).transpose(2, 0, 1))
os.makedirs("photos")
os.rename("cat", "photos/cat")
os.rename("dog", "photos/dog")
numpy.save("pixels.npy", numpy.stack(pixels))
numpy.save("classes.npy", numpy.array([0, 0, 1]))
END

for form in "" "--gzip 4" "--chunk 64" "--gzip 9 --chunk 500" "--gzip 1 --chunk 1"; do
  # shellcheck disable=SC2086  # options are words
  data convert images.npy labels.npy train.h5 $form
  check "convert $form" is $code 0
  check "has the samples" is "$(checksum train.h5 samples)" "$(checksum images.npy samples)"
  check "has the targets" is "$(checksum train.h5 targets)" "$(checksum labels.npy samples)"
  data verify train.h5
  check "verify finds it whole" has "$out" ", as stored"
  check "with exit code 0" is $code 0
done
data convert images.npy labels.npy train.h5 --gzip 4
data info train.h5
check "info shows the samples" has "$out" "  samples: uint8 [500, 3, 9, 7], chunks [43, 3, 9, 7], shuffle, gzip 4, "
check "and the targets" has "$out" "  targets: int64 [500], contiguous, 4000 bytes, checksum "
check "and the checksum" has "$out" "checksum $(checksum images.npy samples)"
if command -v h5dump > /dev/null; then
  h5dump -d samples -b LE -o samples.bin train.h5 > /dev/null
  check "HDF5's own tool reads the same bytes" cmp -s samples.bin <(tail -c +129 images.npy)
else
  missing "HDF5's own tool" "there is no h5dump"
fi

data convert images.idx.gz labels.npy idx.h5
check "IDX, packed" is "$(checksum idx.h5 samples)" "$(checksum images.npy samples)"
data convert train.h5 again.h5 --chunk 10
check "HDF5 in other chunks" is "$(checksum again.h5 samples)" "$(checksum images.npy samples)"
check "with its targets" is "$(checksum again.h5 targets)" "$(checksum labels.npy samples)"
data convert train.h5 named.h5 --samples targets --targets targets
check "HDF5 by names" is "$(checksum named.h5 samples)" "$(checksum labels.npy samples)"
if data info small.npz && [[ $code == 0 ]]; then
  check "info of an archive" has "$out" "  targets: int64 [500], 4000 bytes"
  data convert small.npz small.h5
  check "NumPy's archive, compressed" is "$(checksum small.h5 samples)" "$(checksum images.npy samples)"
  check "with its targets" is "$(checksum small.h5 targets)" "$(checksum labels.npy samples)"
  data convert all.npz all.h5 --samples x --targets y
  check "and another one by names" is "$(checksum all.h5 samples)" "$(checksum images.npy samples)"
  data convert all.npz bad.h5
  check "an array that is missing" has "$(cat err.txt)" "has no array 'samples'; it has 'x', 'y'"
else
  check "without libzip it says so" has "$(cat err.txt)" "built without libzip"
fi
data convert table.csv table.h5 --targets second
check "CSV" is "$(checksum table.h5 samples)" "$(checksum table.npy samples)"
check "CSV's targets" is "$(checksum table.h5 targets)" "$(checksum column.npy samples)"
data convert wide.csv wide.h5
check "a table with 8,000 names" is $code 0
data info wide.h5
check "has its row" has "$out" "samples: float32 [1, 8000]"
if data info photos && [[ $code == 0 ]]; then
  check "info of images" has "$out" "  samples: uint8 [3, 3, 16, 20]"
  data convert photos photos.h5
  check "images, as Pillow decodes them" is "$(checksum photos.h5 samples)" "$(checksum pixels.npy samples)"
  check "and their classes" is "$(checksum photos.h5 targets)" "$(checksum classes.npy samples)"
else
  check "without libraries for images it says so" has "$(cat err.txt)" "built without libjpeg-turbo and libpng"
fi

# What is wrong is said, and leaves no file behind.
refused() { # refused WHAT TEXT WORD...: exit code 2, and TEXT in the error
  local what=$1 text=$2
  shift 2
  data "$@"
  check "$what is refused" is $code 2
  check "and named" has "$(cat err.txt)" "$text"
}
refused "another number of targets" "few.npy: has 499 targets for 500 samples" convert images.npy few.npy bad.h5
refused "a file that is missing" "none.npy" convert none.npy bad.h5
refused "a column that is missing" "it has 'first', 'second', 'third'" convert table.csv bad.h5 --targets fourth
refused "a dataset that is missing" "the file has 'samples', 'targets'" convert train.h5 bad.h5 --samples images
refused "a name for an array alone" "--targets is for files with several arrays" convert images.npy bad.h5 --targets x
refused "a level" "--gzip is 11, not a level from 1 to 9" convert images.npy bad.h5 --gzip 11
refused "a chunk" "--chunk is 0, not 1 or more" convert images.npy bad.h5 --chunk 0
refused "a folder that is missing" "cannot create" convert images.npy no/bad.h5
refused "no command" "no command given"
refused "another command" "unknown command 'show'" show train.h5
refused "no path" "'info' needs a path" info
before=$(cksum < labels.npy)
refused "a file that is no HDF5 as the last path" "labels.npy exists and is not an HDF5 file" convert images.npy labels.npy
check "which stays" is "$(cksum < labels.npy)" "$before"
refused "a chunk that HDF5 has not" "choose a smaller --chunk" convert large.npy bad.h5 --chunk 4611686018427387904
check "nothing is left behind" is "$(ls -d bad* no 2> /dev/null)" ""

# A limit of the process stands for a full disk.
cp train.h5 full.h5
out=$(trap '' XFSZ; ulimit -f 40; "$bin/kolo" data convert images.npy labels.npy full.h5 2>&1)
check "a disk that is full is an error" is $? 2
check "which is named" has "$out" "cannot write full.h5.partial"
check "the old file stays" cmp -s full.h5 train.h5
check "and no other" is "$(ls -d full*)" full.h5

# One byte of a chunk, and one of a contiguous array, where HDF5 itself finds nothing.
data convert images.npy labels.npy plain.h5
for file in train.h5 plain.h5; do
  "$python" - "$file" << 'END'
import sys
with open(sys.argv[1], "r+b") as file:
    content = file.read()
    file.seek(len(content) // 2)
    byte = content[len(content) // 2]
    file.seek(len(content) // 2)
    file.write(bytes([byte ^ 16]))
END
  data verify "$file"
  check "verify finds a damaged byte in $file" is $code 1
  check "and says so" grep -qE "DAMAGED|CANNOT BE READ" <<< "$out"
done
data verify mixed.npz
if ! has "$out" "without libzip" > /dev/null; then
  check "verify goes on after an array of text in an archive" is "$code $(grep -c ', checksum' <<< "$out")" "0 2"
  check "which it names" has "$out" "names: not read: "
  check "and after a single number" has "$out" "number: not read: "
  data info mixed.npz
  check "so does info" is "$code $(grep -cE 'int64|not read' <<< "$out")" "0 4"
  data verify broken.npz
  check "verify goes on after a damaged array in an archive" is \
    "$code $(grep -c 'a: CANNOT BE READ' <<< "$out") $(grep -c ', checksum' <<< "$out")" "1 1 1"
fi
data info images.npy.gz
check "a packed .npy file is refused" is $code 2
check "with the remedy" has "$(cat err.txt)" "unpack the file with gunzip"
data info table.txt --delimiter ';'
check "info knows what separates the cells" has "$out" "samples: float32 [2, 2]"
data verify table.txt --delimiter 3
check "which cannot be a digit" is $code 2
head -c 3000 images.npy > short.npy
data verify short.npy
check "verify finds a file that is cut short" is $code 1
check "and says so" has "$out" "ends before its array does"

finish
