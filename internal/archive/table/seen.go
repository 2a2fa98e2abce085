package table

import "time"

// Seen contains the first and the last time in an hour at which a GPU was scraped.
type Seen struct {
	Cluster, Node, UUID, Serial string
	First, Last                 time.Time
}

// SeenIn returns the GPUs that were scraped in an hour.
func SeenIn(h *Hour) (all []Seen) {
	for i := range h.GPUs {
		if g := &h.GPUs[i]; g.Scrapes > 0 {
			all = append(all, Seen{h.Cluster, g.Node, g.UUID, g.Serial, g.First, g.Last})
		}
	}
	return all
}

// Twice reports whether a GPU was scraped in two clusters at the same time, which is impossible for one board. A board
// that moves is scraped first in one cluster and later in the other.
func (s *Seen) Twice(other *Seen) bool {
	return s.UUID == other.UUID && s.Cluster != other.Cluster && !s.Last.Before(other.First) && !other.Last.Before(s.First)
}
