package gpu

// FieldPage is what the field page shows.
type FieldPage struct{}
