# shellcheck shell=bash
# small_digits FROM TO: the first 1,000 and 300 of the digits in FROM, which are enough for tests.
# cut_idx HOW_MANY IN OUT HEADER_BYTES BYTES_OF_ONE
cut_idx() {
  { head -c 4 "$2"; printf '%b' "$(printf '\\x%02x\\x%02x\\x%02x\\x%02x' 0 0 $(($1 / 256)) $(($1 % 256)))"
    dd if="$2" iflag=skip_bytes,count_bytes skip=8 count=$(($4 - 8 + $1 * $5)) status=none; } > "$3"
}
small_digits() {
  local set count
  mkdir -p "$2"
  for set in train:1000 t10k:300; do
    count=${set#*:} set=${set%:*}
    cut_idx "$count" "$1/$set-images-idx3-ubyte" "$2/$set-images-idx3-ubyte" 16 784
    cut_idx "$count" "$1/$set-labels-idx1-ubyte" "$2/$set-labels-idx1-ubyte" 8 1
  done
}
