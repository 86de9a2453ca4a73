// The finalizers of MurmurHash3 (A. Appleby, public domain): bits of integers mixed so that they can be cut off.

#pragma once

#include <stdint.h>

namespace rec {

inline uint32_t mixed(uint32_t key) noexcept {
    key ^= key >> 16;
    key *= 0x85ebca6b;
    key ^= key >> 13;
    key *= 0xc2b2ae35;
    return key ^ key >> 16;
}

inline uint64_t mixed(uint64_t key) noexcept {
    key ^= key >> 33;
    key *= 0xff51afd7ed558ccd;
    key ^= key >> 33;
    key *= 0xc4ceb9fe1a85ec53;
    return key ^ key >> 33;
}

}  // namespace rec
