package podmapper

// BoundLogs sets how many entries a directory of logs may have.
func (m *Mapper) BoundLogs(most int) { m.names.most = most }
