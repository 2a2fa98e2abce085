package podmapper

// BoundLogs sets the limit for the entries of a log directory.
func (m *Mapper) BoundLogs(limit int) { m.names.limit = limit }
