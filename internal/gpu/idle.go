package gpu

// IdlePower is the power of a GPU with open contexts and no work, with its source. The zero value
// means that it is unknown.
type IdlePower struct {
	Power  Watts
	Source IdleSource
}

// Measured reports whether the power was measured on the GPU itself. Otherwise it is an estimate.
func (p IdlePower) Measured() bool { return p.Power > 0 && p.Source == IdleMeasured }

// IdleSource is the source of an idle power.
type IdleSource int

// The sources, in the order in which they are used.
const (
	IdleMeasured   IdleSource = iota // quiet times of this GPU since the node's boot
	IdleConfigured                   // set by the operator for the model
	IdleStored                       // measured on this node in an earlier boot, for the same model, power limit and driver
	IdlePeer                         // the median of the measured GPUs of the same model and power limit in the node
	IdleLimit                        // estimated from the power limit, and from the GPU's power and work

	NumIdleSources
)

// String returns the value of the source label.
func (s IdleSource) String() string {
	return [...]string{"measured", "configured", "stored", "peer", "limit"}[s]
}
