package gpu

// IdlePower is the power of a GPU that has open contexts but no work. Source shows how the power was determined. The
// zero value means that the power is unknown.
type IdlePower struct {
	Power  Watts
	Source IdleSource
}

// Measured reports whether the power was measured on the GPU itself and is not an estimate.
func (p IdlePower) Measured() bool { return p.Power > 0 && p.Source == IdleMeasured }

// IdleSource is the source of an idle power.
type IdleSource int

// The sources, in order of preference.
const (
	IdleMeasured   IdleSource = iota // measured in quiet times of this GPU since the boot of the node
	IdleConfigured                   // set by the operator for the model
	IdleStored                       // measured on this node in an earlier boot, for a GPU with the same model, power limit and driver
	IdlePeer                         // median of the measured powers of the other GPUs on this node with the same model and power limit
	IdleLimit                        // estimated from three values of the GPU: its power limit, its power and its work

	NumIdleSources
)

// String returns the value of the source label.
func (s IdleSource) String() string {
	return [...]string{"measured", "configured", "stored", "peer", "limit"}[s]
}
