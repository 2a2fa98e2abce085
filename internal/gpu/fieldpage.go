package gpu

// FieldPage contains the DCGM fields that the operator selected in a file, with their values at the last reading.
type FieldPage struct {
	// Fields describes the metrics. Labels contains the names of additional labels. Both have the same order as in the
	// operator's file.
	Fields []PageField
	Labels []string
	Rows   []FieldRow
}

// PageField describes one metric of the field page.
type PageField struct {
	// Name is DCGM's name for the field, spelled as in the operator's file.
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
	// Labels contains the values of the labels in [FieldPage.Labels], in the same order. The values are the unchanged
	// strings of the host engine.
	Labels []string
}
