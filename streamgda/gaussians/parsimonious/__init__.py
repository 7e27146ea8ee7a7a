"""The fourteen covariance models of Celeux & Govaert, fitted to the scatter of each class.

The covariance of a class is Σ_k = λ_k D_k A_k D_kᵀ: its volume λ_k, its shape A_k (diagonal, of determinant
1) and its orientation D_k (orthogonal). A model is named by three letters, for these three in turn: E is
equal for all classes, V varies from class to class, I is the identity.

- `models`: the fourteen, their numbers of parameters, maximum-likelihood fits and densities.
- `scales`: volumes and shapes, given the scatters along the axes of the classes; one covariance up to its
  volume (VEE).
- `rotations`: axes that the classes share (EVE, VVE).

References
----------
Celeux & Govaert (1995), "Gaussian parsimonious clustering models", Pattern Recognition 28;
Bensmail & Celeux (1996), "Regularized Gaussian discriminant analysis through eigenvalue decomposition",
Journal of the American Statistical Association 91.
"""
