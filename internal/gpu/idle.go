package gpu

// IdlePower is the power of a GPU with open contexts and no work, and the source of this value. The
// zero value means that it is unknown.
type IdlePower struct {
	Power  Watts
	Source IdleSource
}

// Measured reports whether the power was measured on the GPU itself. Otherwise it is an estimate.
func (p IdlePower) Measured() bool { return p.Power > 0 && p.Source == IdleMeasured }

// IdleSource is the source of an idle power.
type IdleSource int

// These are the sources, in the order of preference.
const (
	IdleMeasured   IdleSource = iota // quiet times of this GPU since the boot of the node
	IdleConfigured                   // set by the operator for the model
	IdleStored                       // measured on this node in an earlier boot, for the same model, power limit and driver
	IdlePeer                         // the median of the measured GPUs with the same model and power limit in the node
	IdleLimit                        // estimated from the power limit, and from the power and the work of the GPU

	NumIdleSources
)

// String returns the value of the source label.
func (s IdleSource) String() string {
	return [...]string{"measured", "configured", "stored", "peer", "limit"}[s]
}
