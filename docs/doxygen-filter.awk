# How doxygen reads kolo's headers. A comment of two slashes documents what follows, up to the next empty line: all of
# a family of functions, say, which become a group whose first member's text is everyone's. One behind a declaration
# documents that.
function count(text, what) { return gsub(what, what, text) }
function flush(  i, depth, is_family, end) {
  depth = 0; is_family = codes > 0 && comments > 0
  end = line[lines] ~ /^[ \t]*};?$/ ? lines - 1 : lines  # of the class around the family
  for (i = 1; i <= end; ++i) {
    if (line[i] ~ /^[ \t]*\/\//) continue
    depth += count(line[i], "{") - count(line[i], "}")
    if (depth < 0 || line[i] ~ /^[ \t]*(namespace|public:|private:|protected:|#)/) is_family = 0
  }
  if (depth != 0) is_family = 0
  if (is_family) print "///@{"
  for (i = 1; i <= end; ++i) print line[i]
  if (is_family) print "///@}"
  if (end < lines) print line[lines]
  lines = codes = comments = 0
}
{
  if ($0 ~ /^[ \t]*$/) { flush(); print; next }
  is_comment = $0 ~ /^[ \t]*\/\//
  if (is_comment && codes > 0) { flush() }  # the next comment begins something new
  text = $0
  if (is_comment) { sub(/\/\//, "///", text); ++comments } else { ++codes; if (text ~ /[;{,)] *\/\/ /) sub(/\/\/ /, "///< ", text) }
  line[++lines] = text
}
END { flush() }
