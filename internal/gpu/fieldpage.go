package gpu

// FieldPage contains the content of the field page: selected fields of a DCGM host engine with
// their values at the last reading.
type FieldPage struct {
	// Fields contains the metrics, and Labels contains the names of additional labels. Both are sorted
	// as in the file that selects the fields.
	Fields []PageField
	Labels []string
	Rows   []FieldRow
}

// PageField describes one metric of the field page.
type PageField struct {
	// Name is DCGM's name for the field, spelled as in the file that selects the fields.
	Name    string
	Help    string
	Counter bool // set if the metric is a counter; otherwise it is a gauge
}

// FieldRow contains the values of one GPU or MIG instance.
type FieldRow struct {
	UUID        string
	GPUInstance string // GPU instance id, or empty for a whole GPU
	Profile     string // profile of the MIG instance
	// Values has one entry for each field of the page. An entry is nil if the field has no value.
	Values []*float64
	// Labels has one entry for each label of the page. The entry is the value that the host engine
	// returned.
	Labels []string
}
