package events

import (
	"crypto/sha256"
	"io"
	"net/http"
	"time"

	"github.com/gpuledger/gpuledger/internal/event"
)

// repetition is slightly shorter than the interval at which a sender repeats its state. It is longer than the time
// between two attempts of a sender to send the same request.
const repetition = 4 * time.Minute

// question is a response that requested the current state of a cluster.
type question struct {
	// request identifies the request. It is zero if the sender received the response.
	request [sha256.Size]byte
	at      time.Time
	late    bool // whether the same request also arrived more than repetition earlier
}

func identify(events []event.Event) (request [sha256.Size]byte) {
	sum := sha256.New()
	for _, e := range events {
		_, _ = io.WriteString(sum, e.ID+"\n")
	}
	return [sha256.Size]byte(sum.Sum(nil))
}

// repeat makes the receiver request the state of every cluster again. It is called at the start, because the last run
// may have lost its queues. It is also called after events were dropped.
func (r *Receiver) repeat() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.questions = make(map[string]question)
}

// ask requests the current state from the sender of a cluster. If the sender receives no response, it sends the same
// request again, and ask repeats the question. After a long time, an equal request may also be the requested state. So
// ask then repeats the question only once.
func (r *Receiver) ask(w http.ResponseWriter, cluster string, request [sha256.Size]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	last, found := r.questions[cluster]
	late := found && now.Sub(last.at) >= repetition
	if found && (request != last.request || late && last.late) {
		r.questions[cluster] = question{}
		return
	}
	r.questions[cluster] = question{request, now, late}
	w.Header().Set(event.RepeatHeader, "true")
}
