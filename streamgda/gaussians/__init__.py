"""Normal densities of the classes, and what is computed from them. Depends on NumPy and SciPy alone.

- `base`: what the densities of classes can do.
- `densities`: the log density of rows under each class, for one covariance per class (`SeparateGaussians`)
  and variances alone (`DiagonalGaussians`). `shared`: for one covariance for all (`SharedGaussians`).
- `updated`: densities with one covariance for all, brought up to date as rows are learnt.
- `students`: the predictive densities, which do not take means and covariances as known.
- `pooling`, `pooled`: covariances that lean on the pooled one; `evidence` says by how much.
- `posteriors`: posterior probabilities and log-odds from log densities.
- `missing`: rows with missing values, grouped by the features that are observed.
- `boundaries`: the surface between two classes. `projection`: the directions that separate the classes best.
- `parsimonious`: covariances that share volume, shape or orientation among the classes.
- `whitening`: coordinates in which a covariance is the identity, and its rank.
- `axes`: principal axes of a covariance, in any units.
- `tails`: means to twice the precision of float64.
- `products`: rows times a matrix, with the same bits for any number of rows.
- `triangles`: Cholesky factors and their inverses.
"""
