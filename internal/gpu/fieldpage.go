package gpu

// FieldPage is what the field page shows: chosen fields of a DCGM host engine, as it
// last read them.
type FieldPage struct {
	// Fields are the metrics, Labels the names of further labels, both in the order of
	// the file.
	Fields []PageField
	Labels []string
	Rows   []FieldRow
}

// PageField is one metric of the field page.
type PageField struct {
	// Name is DCGM's name of the field, as the file spells it.
	Name    string
	Help    string
	Counter bool // or else a gauge
}

// FieldRow is what is said of one GPU or MIG instance.
type FieldRow struct {
	UUID        string
	GPUInstance string // its GPU instance id, empty for a whole GPU
	Profile     string // of the MIG instance
	// Values has one for each of the page's fields: nil where there is none.
	Values []*float64
	// Labels has one for each of the page's labels, in the engine's words.
	Labels []string
}
