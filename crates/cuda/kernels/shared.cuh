// The shared memory a launch asks for by its size. The host twin of the language defines the macro itself.
#pragma once

#ifndef SHARED_ALIGNMENT
#define SHARED_ALIGNMENT 16
#endif

#ifndef DYNAMIC_SHARED
extern __shared__ __align__(SHARED_ALIGNMENT) unsigned char dynamic_shared[];
#define DYNAMIC_SHARED(type, name) type *name = reinterpret_cast<type *>(dynamic_shared)
#endif
