package factors

// Files are the files with factors.
type Files struct {
	Assets, Columns string
}

// Factors are the factors that were read.
type Factors struct {
	Assets *Assets
}

// Read reads the files that are set.
func (f Files) Read() (all Factors, err error) {
	all.Assets = &Assets{}
	return all, nil
}
