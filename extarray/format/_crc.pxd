# CRC-32C of bytes in memory.

from libc.stdint cimport uint8_t, uint32_t


# Continues from the checksum of the bytes before; 0 at the start.
cdef uint32_t checksum(const uint8_t *data, size_t n, uint32_t crc) noexcept nogil
