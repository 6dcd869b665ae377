// The file that metalki_precompile has written.
    .section .rodata
    .balign 16
    .globl metalki_prefix_begin
    .hidden metalki_prefix_begin
    .globl metalki_prefix_end
    .hidden metalki_prefix_end
metalki_prefix_begin:
    .incbin METALKI_PREFIX_FILE
metalki_prefix_end:
    .section .note.GNU-stack,"",%progbits
