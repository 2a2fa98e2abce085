package source

import (
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/stage"
)

// xids collects the errors that the two drivers tell, so that one that both are told of
// is one.
type xids struct {
	waiting []gpu.XID // for the next report
	told    []told    // oldest first
}

// told is an error that one driver told and the other may tell yet.
type told struct {
	gpu.XID
	by stage.Name
}

const (
	// apart is how far the times lie apart at most that two drivers have of one error.
	apart = 5 * time.Second
	// remembered is how many errors that only one driver told are remembered: the other
	// may be late by as long as it hangs.
	remembered = 1024
)

// add takes in what a driver tells. Each error of the other one stands for one error at
// most, as the same error may well come again.
func (x *xids) add(by stage.Name, list []gpu.XID) {
	for _, e := range list {
		same := slices.IndexFunc(x.told, func(o told) bool {
			return o.by != by && o.UUID == e.UUID && o.Code == e.Code && o.At.Sub(e.At).Abs() <= apart
		})
		if same >= 0 {
			x.told = slices.Delete(x.told, same, same+1)
			if e.Earlier == 0 {
				continue
			}
			e.Earlier-- // those before it have no times by which to tell whether they were told
		}
		x.waiting = e.Queue(x.waiting)
		x.told = append(x.told, told{e, by})
	}
	x.told = slices.Delete(x.told, 0, max(0, len(x.told)-remembered))
}

// take returns what no report had yet.
func (x *xids) take() []gpu.XID {
	list := x.waiting
	x.waiting = nil
	return list
}
