package nodes

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/gpuledger/gpuledger/internal/reconciler/validator"
)

// Record is an object in the cluster. The annotations of this object store state that must survive a restart of the
// reconciler.
type Record interface {
	// Edit calls the function edit with the annotations, and writes the annotations if the function changed them. After
	// a write conflict, Edit may call the function again.
	Edit(ctx context.Context, edit func(annotations map[string]string)) error
}

const (
	// spentKey is the annotation that stores the used budget for changes of identity.
	spentKey = "gpuledger.io/identity-changes"
	// spentOnConditionsKey is the annotation that stores the used budget for conditions.
	spentOnConditionsKey = "gpuledger.io/condition-changes"
	// approvedKey is the annotation that stores the number of changes that are allowed in addition to the budget. An
	// administrator sets this number. The reconciler subtracts the changes that it reserves.
	approvedKey = "gpuledger.io/approved-changes"
	// untilKey is the annotation that stores the time at which an approval expires. By default, an approval expires a
	// day after the first reservation.
	untilKey = "gpuledger.io/approved-changes-until"
)

const (
	approvalLasts = 24 * time.Hour
	// approvalAgain is the interval between two checks for an approval while changes wait.
	approvalAgain = 10 * time.Second
	// Each write of the record reserves a twentieth of the approved changes for this replica. With a smaller divisor,
	// the reconciler writes the record less often, but a restart loses more reserved changes.
	approvalPart = 20
)

// changes limits the number of Nodes that are changed in an hour. The record stores the used part of this budget, so
// that neither a restart nor another leader resets the budget. changes is safe for concurrent use.
type changes struct {
	record Record // nil if the budget is kept only in memory
	key    string // annotation that contains the used part of the budget
	log    *slog.Logger

	mu     sync.Mutex
	budget *validator.Budget
	loaded bool
	saved  string // value of the annotation when it was last written or read
	looked time.Time
	// failed is set while the record cannot be read or written.
	failed bool
}

func newChanges(record Record, key string, log *slog.Logger) *changes {
	return &changes{record: record, key: key, log: log, budget: validator.NewBudget(), loaded: record == nil}
}

// take reports whether the budget allows a change of a Node now, and records the change. The argument fleet is the
// number of Nodes, on which the budget depends. If take cannot record the change, it returns false.
func (c *changes) take(ctx context.Context, node, change string, fleet int, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	room, err := c.takeRecorded(ctx, node, change, fleet, now)
	if err != nil && ctx.Err() == nil && !c.failed {
		c.log.Warn("cannot save the change budget, so changes of node labels wait", "err", err)
	}
	c.failed = err != nil
	return room && err == nil
}

func (c *changes) takeRecorded(ctx context.Context, node, change string, fleet int, now time.Time) (bool, error) {
	if err := c.load(ctx); err != nil {
		return false, fmt.Errorf("read the change budget: %w", err)
	}
	room := c.budget.Take(node, change, fleet, now)
	if !room && c.record != nil && c.key == spentKey && now.Sub(c.looked) >= approvalAgain {
		if err := c.approve(ctx, now); err != nil {
			return false, fmt.Errorf("reserve approved changes: %w", err)
		}
		room = c.budget.Take(node, change, fleet, now)
	}
	if !room {
		return false, nil
	}
	if err := c.save(ctx); err != nil {
		return false, fmt.Errorf("write the change budget: %w", err)
	}
	return true, nil
}

// load reads the used part of the budget from the record.
func (c *changes) load(ctx context.Context) error {
	if c.loaded {
		return nil
	}
	if err := c.record.Edit(ctx, func(a map[string]string) { c.saved = a[c.key] }); err != nil {
		return err
	}
	c.loaded = true
	if c.saved == "" {
		return nil
	}
	if err := c.budget.UnmarshalText([]byte(c.saved)); err != nil {
		c.log.Warn("resetting an invalid change budget", "annotation", c.key, "err", err)
	}
	return nil
}

func (c *changes) save(ctx context.Context) error {
	text, err := c.budget.MarshalText()
	if err != nil || c.record == nil || string(text) == c.saved {
		return err
	}
	if err := c.record.Edit(ctx, func(a map[string]string) { a[c.key] = string(text) }); err != nil {
		return err
	}
	c.saved = string(text)
	return nil
}

func (c *changes) approve(ctx context.Context, now time.Time) error {
	var a approval
	if err := c.record.Edit(ctx, func(annotations map[string]string) { a = reserve(annotations, now) }); err != nil {
		return err
	}
	if a.reserved == 0 {
		c.looked = now
	} else {
		c.budget.Approve(a.reserved, now, a.until)
	}
	switch {
	case a.err != nil:
		c.log.Warn("ignoring an invalid approval of changes", "err", a.err)
	case a.expired:
		c.log.Info("approval of changes expired", "unused", a.left)
	case a.first:
		c.log.Info("applying approved changes of identity", "approved", a.reserved+a.left)
	case a.reserved > 0 && a.left == 0:
		c.log.Info("all approved changes of identity were applied")
	}
	return nil
}

type approval struct {
	reserved, left int
	until          time.Time // time at which the reserved changes expire
	first, expired bool
	err            error
}

// reserve subtracts a part of the approved changes from the annotation. It removes an approval that is used up or has
// expired.
func reserve(annotations map[string]string, now time.Time) approval {
	text, approved := annotations[approvedKey]
	if !approved {
		return approval{}
	}
	left, err := strconv.Atoi(text)
	if err != nil || left < 0 {
		return approval{err: fmt.Errorf("annotation %s=%q: must be a number of changes", approvedKey, text)}
	}
	a := approval{left: left}
	until := now.Add(approvalLasts)
	if limit, set := annotations[untilKey]; !set {
		a.first = true
	} else if until, err = time.Parse(time.RFC3339, limit); err != nil {
		return approval{err: fmt.Errorf("annotation %s: %w", untilKey, err)}
	}
	a.until, a.expired = until, now.After(until)
	if !a.expired {
		a.reserved = min(left, left/approvalPart+1)
		a.left -= a.reserved
	}
	if a.expired || a.left == 0 {
		delete(annotations, approvedKey)
		delete(annotations, untilKey)
		return a
	}
	annotations[approvedKey], annotations[untilKey] = strconv.Itoa(a.left), until.UTC().Format(time.RFC3339)
	return a
}
