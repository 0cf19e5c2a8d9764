"""read_summary.py FOLDER: whether TensorBoard's reader finds there what write_summary wrote."""
import io
import sys

import numpy
from PIL import Image
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.util import tensor_util

events = event_accumulator.EventAccumulator(sys.argv[1], {kind: 0 for kind in event_accumulator.DEFAULT_SIZE_GUIDANCE})
events.Reload()

# The reader turns the old forms, which all writers write, into tensors or keeps them.
loss = events.Scalars("loss/train")
assert [event.step for event in loss] == list(range(100)), loss
assert all(abs(event.value - 1 / (event.step + 1)) < 1e-6 for event in loss), loss
(large,) = events.Scalars("large")
assert large.step == 1 << 40 and abs(large.value / 1e30 - 1) < 1e-6, large

(weights,) = events.Histograms("weights")
value = weights.histogram_value
expected = numpy.arange(-50, 50).astype(numpy.float32) / 10
assert weights.step == 3 and value.num == 100, weights
assert abs(value.min + 5) < 1e-6 and abs(value.max - 4.9) < 1e-6, value
assert abs(value.sum - expected.sum()) < 1e-4 and abs(value.sum_squares - (expected**2).sum()) < 1e-3, value
begin = -float("inf")
for limit, count in zip(value.bucket_limit, value.bucket):
    inside = ((expected > begin) & (expected <= limit)).sum()
    assert inside == count, (begin, limit, count, inside)
    begin = limit
(whole,) = events.Histograms("whole")
assert whole.histogram_value.num == 3 and whole.histogram_value.max == 2, whole

(picture,) = events.Images("picture")
assert (picture.step, picture.width, picture.height) == (5, 5, 2), picture
pixels = numpy.array(Image.open(io.BytesIO(picture.encoded_image_string)))
assert pixels.shape == (2, 5, 3) and pixels[1, 4].tolist() == [255, 0, 0] and pixels.sum() == 255, pixels
(grey,) = events.Images("grey")
assert numpy.array(Image.open(io.BytesIO(grey.encoded_image_string))).tolist() == [[0, 1, 2], [3, 4, 5]]

(notes,) = events.Tensors("notes/text_summary")
assert notes.step == 7
assert tensor_util.make_ndarray(notes.tensor_proto).tolist() == ["**bold** é".encode()], notes
assert events.SummaryMetadata("notes/text_summary").plugin_data.plugin_name == "text"
print("all is there")
