# Builds libraries of Flambeau kernels. `find_package(Flambeau CONFIG REQUIRED)` finds this file when `Flambeau_DIR` is what
# `flambeau.core.native.cmake_dir()` returns; `plugins/example/native/CMakeLists.txt` shows how to ask for it.
#
#   flambeau_enable_kernels(<variable>)
#
# enables C++, at file scope, and sets <variable> to whether kernels are to be built. A package without kernels installs
# and serves by its reference implementations, so that a machine without a C++ compiler is only warned. FLAMBEAU_KERNELS
# chooses: AUTO, ON (no compiler is an error) or OFF. Projects that use it begin with `project(<name> LANGUAGES NONE)`.
#
#   flambeau_add_kernels(<target> [SHARED] <source>...)
#
# adds a loadable module <target>, without prefix and free of Python's version: `_kernels.so`, `_kernels.dylib` or
# `_kernels.dll`; with SHARED a library that programs can be linked with too, `lib<target>.so`. Install it into the package
# that has the operators:
#
#   install(TARGETS <target> DESTINATION flambeau/vision)

get_filename_component(Flambeau_INCLUDE_DIR "${CMAKE_CURRENT_LIST_DIR}/../include" ABSOLUTE)
set(Flambeau_GLIBC_SOURCE "${CMAKE_CURRENT_LIST_DIR}/glibc.cpp")

macro(flambeau_enable_kernels variable)
  set(FLAMBEAU_KERNELS AUTO CACHE STRING "Native kernels: AUTO, ON (no C++ compiler is an error) or OFF")
  set(${variable} FALSE)
  if(FLAMBEAU_KERNELS)
    if(CMAKE_CXX_COMPILER MATCHES "NOTFOUND$" OR (IS_ABSOLUTE "${CMAKE_CXX_COMPILER}" AND NOT EXISTS "${CMAKE_CXX_COMPILER}"))
      unset(CMAKE_CXX_COMPILER CACHE)  # the answer of an older configuration: compilers come and go
    endif()
    include(CheckLanguage)
    check_language(CXX)
    if(CMAKE_CXX_COMPILER)
      enable_language(CXX)
      set(${variable} TRUE)
    elseif(FLAMBEAU_KERNELS STREQUAL "AUTO")
      message(WARNING "No C++ compiler: ${PROJECT_NAME} is built without native kernels, its reference implementations "
                      "serve. Install a compiler and install again for the kernels.")
    else()
      message(FATAL_ERROR "No C++ compiler, and FLAMBEAU_KERNELS is ${FLAMBEAU_KERNELS}; install one, or set it to AUTO.")
    endif()
  endif()
endmacro()

function(flambeau_add_kernels target)
  cmake_parse_arguments(PARSE_ARGV 1 kernels "SHARED" "" "")
  if(NOT kernels_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "flambeau_add_kernels(${target}): no sources given")
  endif()
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release PARENT_SCOPE)
  endif()

  if(kernels_SHARED)
    add_library(${target} SHARED ${kernels_UNPARSED_ARGUMENTS})
    set_target_properties(${target} PROPERTIES PREFIX "lib")
  else()
    add_library(${target} MODULE ${kernels_UNPARSED_ARGUMENTS})
    set_target_properties(${target} PROPERTIES PREFIX "")
  endif()
  target_compile_features(${target} PRIVATE cxx_std_17)
  target_include_directories(${target} PRIVATE "${Flambeau_INCLUDE_DIR}")
  set_target_properties(
    ${target}
    PROPERTIES CXX_EXTENSIONS OFF
               CXX_VISIBILITY_PRESET hidden
               VISIBILITY_INLINES_HIDDEN ON
               POSITION_INDEPENDENT_CODE ON)
  if(APPLE)
    set_target_properties(${target} PROPERTIES SUFFIX ".dylib")
  endif()

  if(MSVC)
    target_compile_options(${target} PRIVATE /O2 /W3 /fp:precise)
  else()
    # No -ffast-math and no contraction into fused multiply-adds: a kernel gives the same bits on every instruction set
    # and the same as the torch reference. Errno and traps are given up, they only stand in the way of vectorising.
    target_compile_options(${target} PRIVATE -O3 -fno-math-errno -fno-trapping-math -ffp-contract=off -Wall -Wextra)
  endif()
  if(UNIX AND NOT APPLE)
    # Needed libraries are those really used: a kernel that keeps to C functions needs libc alone. What archives export
    # stays inside: the process may hold other versions of the same.
    target_link_options(${target} PRIVATE -Wl,--as-needed -Wl,--no-undefined -Wl,--exclude-libs,ALL)
    target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS} m)
    _flambeau_run_on_older_systems(${target})
  endif()
endfunction()

# The library is to load where an older C library and no or an older C++ library is, such as manylinux promises.
function(_flambeau_run_on_older_systems target)
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_QUIET TRUE)
  check_cxx_source_compiles("#include <features.h>
#ifndef __GLIBC__
#error another C library
#endif
int main() { return 0; }" Flambeau_GLIBC)
  if(Flambeau_GLIBC)
    target_sources(${target} PRIVATE "${Flambeau_GLIBC_SOURCE}")
    target_link_options(${target} PRIVATE -Wl,--gc-sections)
    target_compile_options(${target} PRIVATE -ffunction-sections -fdata-sections "SHELL:-include \"${Flambeau_INCLUDE_DIR}/flambeau/glibc.h\"")
  endif()
  # Not every system has the archive.
  set(CMAKE_REQUIRED_LINK_OPTIONS -static-libstdc++)
  check_cxx_source_compiles("#include <string>
int main(int count, char** words) { return int(std::string(words[0]).size()) + count; }" Flambeau_STATIC_LIBSTDCXX)
  if(Flambeau_STATIC_LIBSTDCXX)
    target_link_options(${target} PRIVATE -static-libstdc++)
  endif()
endfunction()
