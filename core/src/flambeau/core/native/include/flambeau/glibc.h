// Binds a library that is built on a new Linux to the first version of functions that glibc has always had.
//
// The linker takes the newest version of a symbol, with which the library would load on no older system: glibc 2.34 moved
// these functions from libdl and libpthread into libc, and 2.29 gave exp, log and pow versions that leave errno alone. The
// older ones compute the same. `flambeau_add_kernels` includes this file before every source.
#ifndef FLAMBEAU_GLIBC_H
#define FLAMBEAU_GLIBC_H

#ifdef __cplusplus
#include <cstddef>
#else
#include <stddef.h>
#endif

#if defined(__GLIBC__) && defined(__x86_64__)
#define FB_FIRST_GLIBC "GLIBC_2.2.5"
#elif defined(__GLIBC__) && defined(__aarch64__)
#define FB_FIRST_GLIBC "GLIBC_2.17"
#endif

#ifdef FB_FIRST_GLIBC
// A symbol that a source does not use is not bound by this.
__asm__(".symver dlopen,dlopen@" FB_FIRST_GLIBC);
__asm__(".symver dlsym,dlsym@" FB_FIRST_GLIBC);
__asm__(".symver exp,exp@" FB_FIRST_GLIBC);
__asm__(".symver log,log@" FB_FIRST_GLIBC);
__asm__(".symver pow,pow@" FB_FIRST_GLIBC);
#endif

#endif  // FLAMBEAU_GLIBC_H
