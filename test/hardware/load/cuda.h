/* These are the functions of the CUDA driver API that the load calls. They are loaded at run time. */
#ifndef CUDA_H
#define CUDA_H

/* Opens the library, a context on the GPU at a PCI address, and the kernel. Each function returns NULL,
 * or the name of the failed function with its error; the text is valid until the next call. */
const char *cuda_open(const char *library, const char *bus, const char *ptx);

/* Queues one launch of the kernel with an event before and after it, in one of two slots. */
const char *cuda_launch(int slot, unsigned long long iterations);

/* Waits for the launch in a slot, and returns its duration. */
const char *cuda_wait(int slot, float *ms);

const char *cuda_close(void);

#endif
