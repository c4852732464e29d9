"""Power rails of NVIDIA's Jetson boards: from the kernel's INA3221 files, or from tegrastats."""
