"""Normal densities of the classes, and what is computed from them, without Arrow, Dask and scikit-learn.

- `base`: what the densities of classes can do, and what stands for them where rows determine none yet.
- `densities`: the log density of rows under each class, for one covariance per class, pooled or not
  (`SeparateGaussians`), and variances alone (`DiagonalGaussians`).
- `shared`: the log density for one covariance of all classes (`SharedGaussians`).
- `regularisation`: covariances between those of the classes and the pooled one.
- `posteriors`: posterior probabilities and log-odds from log densities, and how sure they are.
- `boundaries`: the surface between two classes.
- `axes`: principal axes of a covariance, in any units, and the directions that separate the classes best.
- `whitening`: coordinates in which a covariance is the identity, its rank and its log-determinant.
- `products`: deviations of rows from means, and rows times a matrix, with the same bits for any number of
  rows.
- `components`: covariances within and between the classes, and the features that make one singular.
"""
