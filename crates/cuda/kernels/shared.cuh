// The shared memory a launch asks for by its size. The host twin of the language defines the macro itself.
#pragma once

#ifndef DYNAMIC_SHARED
extern __shared__ __align__(16) unsigned char dynamic_shared[];
#define DYNAMIC_SHARED(type, name) type *name = reinterpret_cast<type *>(dynamic_shared)
#endif
