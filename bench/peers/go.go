// The same operations as bench/micro.c, in Go.
// Usage: go run go.go [ROUNDS [WHAT]]: only what has WHAT in its name
package main

import (
	"fmt"
	"os"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

var rounds, wanted = 9, ""

func measure(name string, round func() float64) {
	if !strings.Contains(name, wanted) {
		return
	}
	results := make([]float64, rounds)
	round()
	for i := range results {
		results[i] = round()
	}
	sort.Float64s(results)
	fmt.Printf("%-46s %8.1f   (%.1f to %.1f)\n", name, results[rounds/2], results[0], results[rounds-1])
}

func per(start time.Time, count int) float64 {
	return float64(time.Since(start).Nanoseconds()) / float64(count)
}

func yieldTwo() float64 {
	const yields = 1000000
	var group sync.WaitGroup
	start := time.Now()
	for i := 0; i < 2; i++ {
		group.Add(1)
		go func() {
			for i := 0; i < yields; i++ {
				runtime.Gosched()
			}
			group.Done()
		}()
	}
	group.Wait()
	return per(start, 2*yields)
}

func spawnJoin() float64 {
	const spawns = 300000
	var group sync.WaitGroup
	start := time.Now()
	for i := 0; i < spawns; i++ {
		group.Add(1)
		go group.Done()
		group.Wait()
	}
	return per(start, spawns)
}

func gang() float64 {
	const size = 10000
	var group sync.WaitGroup
	gate := make(chan bool)
	start := time.Now()
	for i := 0; i < size; i++ {
		group.Add(1)
		go func() { <-gate; group.Done() }()
	}
	runtime.Gosched()
	close(gate)
	group.Wait()
	return per(start, size)
}

func roundTrip() float64 {
	trips := uint64(250000)
	if lockOthers {
		trips = 5000 // each hop is a futex
	}
	there, back := make(chan uint64, 1), make(chan uint64, 1)
	go func() {
		lockIfAsked()
		for item := range there {
			back <- item
		}
	}()
	start := time.Now()
	for i := uint64(0); i < trips; i++ {
		there <- i
		<-back
	}
	result := per(start, int(trips))
	close(there)
	return result
}

func selectRoundTrip() float64 {
	const trips = 100000
	there, back := make(chan uint64, 1), make(chan uint64, 1)
	receive := func(from chan uint64) (uint64, bool) {
		timer := time.NewTimer(30 * time.Second)
		defer timer.Stop()
		select {
		case item, ok := <-from:
			return item, ok
		case <-timer.C:
			return 0, false
		}
	}
	go func() {
		for {
			item, ok := receive(there)
			if !ok {
				return
			}
			back <- item
		}
	}()
	start := time.Now()
	for i := uint64(0); i < trips; i++ {
		there <- i
		receive(back)
	}
	result := per(start, trips)
	close(there)
	return result
}

func stream(capacity int) func() float64 {
	return func() float64 {
		messages := uint64(1000000)
		if lockOthers {
			messages = 50000
		}
		channel, done := make(chan uint64, capacity), make(chan bool)
		go func() {
			lockIfAsked()
			for range channel {
			}
			done <- true
		}()
		start := time.Now()
		for i := uint64(0); i < messages; i++ {
			channel <- i
		}
		close(channel)
		<-done
		return per(start, int(messages))
	}
}

func mutexFree() float64 {
	const locks = 1000000
	var mutex sync.Mutex
	start := time.Now()
	for i := 0; i < locks; i++ {
		mutex.Lock()
		mutex.Unlock()
	}
	return per(start, locks)
}

func mutexContended() float64 {
	const locks = 1000000
	var mutex sync.Mutex
	var group sync.WaitGroup
	start := time.Now()
	for i := 0; i < 2; i++ {
		group.Add(1)
		go func() {
			lockIfAsked()
			for i := 0; i < locks; i++ {
				mutex.Lock()
				mutex.Unlock()
			}
			group.Done()
		}()
	}
	group.Wait()
	return per(start, 2*locks)
}

// Has the other goroutine run on a thread of its own, as this one does: else the scheduler mostly
// puts the two on one thread after the other, and nothing goes from thread to thread.
func apart(round func() float64) func() float64 {
	return func() float64 {
		runtime.LockOSThread()
		lockOthers = true
		result := round()
		lockOthers = false
		runtime.UnlockOSThread()
		return result
	}
}

var lockOthers bool

func lockIfAsked() {
	if lockOthers {
		runtime.LockOSThread()
	}
}

type call struct {
	fn  func(arg any)
	arg any
}

// Calls that another goroutine makes; the channel has room for all, as no sender waits.
func posts() float64 {
	const count = 1000000
	calls, done := make(chan call, count), make(chan bool)
	made := 0
	go func() {
		lockIfAsked()
		for call := range calls {
			call.fn(call.arg)
		}
		done <- true
	}()
	fn := func(arg any) { made++ }
	start := time.Now()
	for i := 0; i < count; i++ {
		calls <- call{fn, nil}
	}
	close(calls)
	<-done
	return per(start, count)
}

func main() {
	if len(os.Args) > 1 {
		rounds, _ = strconv.Atoi(os.Args[1])
	}
	if len(os.Args) > 2 {
		wanted = os.Args[2]
	}
	runtime.GOMAXPROCS(1)
	measure("yield between 2 goroutines", yieldTwo)
	measure("spawn + join", spawnJoin)
	measure("gang of 10,000: spawn, block, wake, join", gang)
	measure("channel round trip", roundTrip)
	measure("channel round trip by select {channel, time}", selectRoundTrip)
	measure("channel stream, 16 slots", stream(16))
	measure("channel stream, unbuffered", stream(0))
	measure("mutex, free", mutexFree)
	runtime.GOMAXPROCS(2)
	measure("channel round trip, two threads", roundTrip)
	measure("channel stream, two threads, 1024 slots", stream(1024))
	measure("posts, two threads", posts)
	measure("mutex contended by two threads", mutexContended)
	measure("channel round trip, apart", apart(roundTrip))
	measure("channel stream, apart, 1024 slots", apart(stream(1024)))
	measure("posts, apart", apart(posts))
	measure("mutex contended, apart", apart(mutexContended))
}
