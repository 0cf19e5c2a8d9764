# The first block ```cpp of a page that is a whole program.
/^```cpp/ { in_block = 1; body = "#line " FNR + 1 " \"" FILENAME "\"\n"; next }
in_block && /^```/ {
  if (is_program) { printf "%s", body; exit }
  in_block = 0
  next
}
in_block {
  if (/^int main\(\)/) is_program = 1
  body = body $0 "\n"
}
END { if (!is_program) exit 1 }
