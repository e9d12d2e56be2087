/* crc32c.h - CRC-32C (Castagnoli, RFC 3720 appendix B.4), by the processor's instruction where there is one.  No I/O. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* Of p[0..n), going on from `crc`: 0 for the first piece. */
uint32_t crc32c(uint32_t crc, const void *p, size_t n);
uint32_t crc32c_portable(uint32_t crc, const void *p, size_t n); /* the same without the instruction */
