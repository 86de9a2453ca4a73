# Builds libraries of Flambeau kernels. `find_package(Flambeau CONFIG REQUIRED)` finds this file when `Flambeau_DIR` is what
# `flambeau.core.native.cmake_dir()` returns; `vision/native/CMakeLists.txt` shows how to ask for it.
#
#   flambeau_add_kernels(<target> <source>...)
#
# adds a loadable module <target>, without prefix and free of Python's version: `_kernels.so`, `_kernels.dylib` or
# `_kernels.dll`. Install it into the package that has the operators:
#
#   install(TARGETS <target> DESTINATION flambeau/vision)

get_filename_component(Flambeau_INCLUDE_DIR "${CMAKE_CURRENT_LIST_DIR}/../include" ABSOLUTE)

function(flambeau_add_kernels target)
  if(NOT ARGN)
    message(FATAL_ERROR "flambeau_add_kernels(${target}): no sources given")
  endif()
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release PARENT_SCOPE)
  endif()

  add_library(${target} MODULE ${ARGN})
  target_compile_features(${target} PRIVATE cxx_std_17)
  target_include_directories(${target} PRIVATE "${Flambeau_INCLUDE_DIR}")
  set_target_properties(
    ${target}
    PROPERTIES PREFIX ""
               CXX_EXTENSIONS OFF
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
    # Needed libraries are those really used: a kernel that keeps to C functions needs libc alone.
    target_link_options(${target} PRIVATE -Wl,--as-needed -Wl,--no-undefined)
    target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS} m)
  endif()
endfunction()
