// The report's files as data. CMake says where they are.
.macro KOLO_FILE name, path
  .global kolo_report_\name\()_begin
  .global kolo_report_\name\()_end
kolo_report_\name\()_begin:
  .incbin "\path"
kolo_report_\name\()_end:
  .byte 0
.endm

  .section .rodata
  KOLO_FILE page, KOLO_REPORT_PAGE
  KOLO_FILE script, KOLO_REPORT_SCRIPT
  KOLO_FILE plotly, KOLO_REPORT_PLOTLY
  .section .note.GNU-stack, "", %progbits
