/// How a dataset is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// One folder per class.
    ClassFolders,
    /// Images in one folder, without labels.
    FlatFolder,
    /// CSV or TSV lines of paths and perhaps labels.
    List,
    /// Tar archives of class folders or of images, plain or gzipped.
    Tar,
    /// A zip archive of class folders or of images.
    Zip,
    /// WebDataset shards.
    WebDataset,
    /// Parquet files with an image column.
    Parquet,
    /// CIFAR's binary batches.
    CifarBinary,
    /// A `.npy` array of images, with or without severity blocks.
    Npy,
    /// MNIST's idx files.
    Idx,
    /// A `.npz` archive with images and labels.
    Npz,
    /// PNG files with one image per pixel row.
    PngRows,
    /// Images that a program made or read itself.
    Memory,
}

impl std::fmt::Display for Layout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::ClassFolders => "class folders",
            Self::FlatFolder => "flat folder",
            Self::List => "list file",
            Self::Tar => "tar archive",
            Self::Zip => "zip archive",
            Self::WebDataset => "WebDataset shards",
            Self::Parquet => "Parquet",
            Self::CifarBinary => "CIFAR binary",
            Self::Npy => "npy array",
            Self::Idx => "idx",
            Self::Npz => "npz archive",
            Self::PngRows => "PNG rows",
            Self::Memory => "memory",
        })
    }
}
