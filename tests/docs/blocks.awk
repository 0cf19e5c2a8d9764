# The blocks ```cpp of pages as one source. Each becomes a member function of a class of its own, so that it sees what
# prelude.hpp declares. A table at the end lists them.
BEGIN {
  print "#include \"prelude.hpp\""
  print "#pragma GCC diagnostic ignored \"-Wunused-value\""
  print "#pragma GCC diagnostic ignored \"-Wshadow\""
}
/^```cpp/ {
  in_block = 1; is_program = 0; body = ""; first = FNR + 1
  next
}
in_block && /^```/ {
  in_block = 0
  if (is_program) next  # README's, which program.awk takes
  file = FILENAME
  sub(/.*\//, "", file)
  ++blocks
  print "struct Block" blocks " : Page {\n  int run() {\n#line " first " \"" file "\"\n" body "    return 0;\n  }\n};\n"
  table = table "    {\"" file ":" first "\", [] { return Block" blocks "().run(); }},\n"
  next
}
in_block {
  if (/^int main\(\)/) {
    is_program = 1
    if (FILENAME !~ /README.md$/) { print FILENAME ":" FNR ": a program that no test runs" > "/dev/stderr"; exit 1 }
  }
  # What is included stands at the top; "..." stands for the rest of a program.
  body = body (/^#include/ || /^\.\.\.$/ ? "" : $0) "\n"
}
END {
  if (blocks == 0) exit 1
  print "const std::vector<Block> kBlocks = {\n" table "};"
}
