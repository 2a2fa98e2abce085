package gpu

// FieldPage is the content of the field page: selected fields of a DCGM host engine and their
// last read values.
type FieldPage struct {
	// Fields are the metrics and Labels the names of additional labels, both in the order of the
	// file.
	Fields []PageField
	Labels []string
	Rows   []FieldRow
}

// PageField is one metric of the field page.
type PageField struct {
	// Name is DCGM's name of the field, in the spelling of the file.
	Name    string
	Help    string
	Counter bool // otherwise a gauge
}

// FieldRow holds the values of one GPU or MIG instance.
type FieldRow struct {
	UUID        string
	GPUInstance string // its GPU instance id, empty for a whole GPU
	Profile     string // of the MIG instance
	// Values has one entry per field of the page, or nil if it has no value.
	Values []*float64
	// Labels has one entry per label of the page, as returned by the host engine.
	Labels []string
}
