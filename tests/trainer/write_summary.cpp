// write_summary FOLDER: what read_summary.py expects.
#include <kolo/summary_writer.h>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  kolo::SummaryWriter writer(argv[1]);
  for (int step = 0; step < 100; ++step) writer.add_scalar("loss/train", 1.0 / (step + 1), step);
  writer.add_scalar("large", 1e30, 1LL << 40);
  writer.add_histogram("weights", torch::arange(-50, 50, torch::kFloat) / 10, 3);
  writer.add_histogram("whole", torch::tensor({1, 1, 2}), 4);
  torch::Tensor picture = torch::zeros({3, 2, 5});
  picture[0][1][4] = 1.0;  // red, at the lower right
  writer.add_image("picture", picture, 5);
  writer.add_image("grey", torch::arange(6, torch::kByte).reshape({2, 3}), 6);
  writer.add_text("notes", "**bold** \xc3\xa9", 7);
  return 0;
}
