/* large_buffer.h - static buffers of many pages, apart from the small variables.
 *
 * A daemon that was only started has written to the small variables and to no buffer.  Kept together (envd/link.ld) the
 * small variables share few pages, of which each sandbox has copies of its own. */
#pragma once

#define LARGE_BUFFER __attribute__((section(".large_buffers"), aligned(4096)))
