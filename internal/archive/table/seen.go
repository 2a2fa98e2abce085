package table

import "time"

// Seen contains the times of the first and the last scrape of a GPU in an hour.
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

// Twice reports whether two clusters scraped a GPU at the same time. This is impossible for one board: if a board
// moves, the second cluster scrapes it only after the first cluster.
func (s *Seen) Twice(other *Seen) bool {
	return s.UUID == other.UUID && s.Cluster != other.Cluster && !s.Last.Before(other.First) && !other.Last.Before(s.First)
}
