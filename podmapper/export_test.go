package podmapper

func (m *Mapper) BoundLogs(limit int) { m.names.limit = limit }
