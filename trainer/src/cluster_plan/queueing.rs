//! Mean value analysis of a closed queueing network.

/// Returns the mean time between two customers that finish, in a network with `customers` of them. Each customer takes the
/// times of all `queues`, where it may wait for others, and `delay`, where it waits for nobody.
pub(super) fn seconds_per_customer(queues: &[f64], delay: f64, customers: usize) -> f64 {
    let mut waiting = vec![0.0; queues.len()];
    let mut seconds = 0.0;
    for present in 1..=customers {
        // A customer that arrives finds the network as it is without this customer.
        let mut times = Vec::with_capacity(queues.len());
        for (time, waiting) in queues.iter().zip(&waiting) {
            times.push(time * (1.0 + waiting));
        }
        let round = delay + times.iter().sum::<f64>();
        seconds = round / present as f64;
        for (waiting, time) in waiting.iter_mut().zip(times) {
            // Without any work there is no time to divide.
            *waiting = if seconds > 0.0 { time / seconds } else { 0.0 };
        }
    }
    seconds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_customer_waits_for_nobody() {
        assert_eq!(seconds_per_customer(&[2.0, 3.0], 4.0, 1), 9.0);
        assert_eq!(seconds_per_customer(&[0.0, 0.0], 0.0, 3), 0.0);
    }

    #[test]
    fn equal_queues_have_the_known_throughput() {
        // n customers at m equal queues: n / (n + m - 1) customers in the time of one queue.
        for customers in 1..6 {
            let seconds = seconds_per_customer(&[1.0; 3], 0.0, customers);
            let expected = (customers + 2) as f64 / customers as f64;
            assert!((seconds - expected).abs() < 1e-12, "{customers} customers: {seconds}");
        }
    }

    #[test]
    fn many_customers_fill_the_longest_queue() {
        let seconds = seconds_per_customer(&[1.0, 5.0, 2.0], 50.0, 200);
        assert!((5.0..5.001).contains(&seconds), "{seconds}");
        assert!(seconds_per_customer(&[1.0], 50.0, 4) >= 51.0 / 4.0);
    }
}
