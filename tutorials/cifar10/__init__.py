"""ResNet-20 on CIFAR-10, beside the HMC run of Izmailov et al. (2021)."""
