# The blocks ```cpp of pages as one source: each is a function, with what prelude.hpp declares around it.
BEGIN { print "#include \"prelude.hpp\"\n#pragma GCC diagnostic ignored \"-Wreturn-type\"\n#pragma GCC diagnostic ignored \"-Wunused-value\"" }
/^```cpp/ {
  in_block = 1; is_program = 0; body = ""; first = FNR + 1; ++blocks
  next
}
in_block && /^```/ {
  in_block = 0
  file = FILENAME
  sub(/.*\//, "", file)
  if (!is_program) body = "int block() {\n#line " first " \"" file "\"\n" body "}\n"
  else body = "#line " first " \"" file "\"\n" body
  print "namespace block_" blocks " {\n" body "}  // namespace\n"
  next
}
in_block {
  if (/^int main\(\)/) { is_program = 1; sub(/main/, "program") }
  # What is included stands at the top; "..." stands for the rest of a program.
  body = body (/^#include/ || /^\.\.\.$/ ? "" : $0) "\n"
}
END { if (blocks == 0) exit 1 }
