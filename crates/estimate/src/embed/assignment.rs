use crate::embed::EmbedError;

/// A best one-to-one match of rows and columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// The column of each row; `None` for rows left over where there are more rows than columns.
    pub columns: Vec<Option<usize>>,
    /// Sum of the matched costs.
    pub cost: f64,
}

/// Matches rows and columns one to one so that the sum of the matched costs is smallest.
///
/// `costs` is row-major with `columns` values per row. Of a matrix that is not square, the shorter side is matched completely.
///
/// *Idea.* Rows enter one after the other. Each looks for the cheapest chain of changes that ends at a free column; prices of
/// rows and columns keep all differences non-negative, so Dijkstra's algorithm finds that chain.
///
/// *Formula.* Minimises `sum_r cost[r, c(r)]` over injective `c`. Time is `short^2 * long`.
///
/// *Reference.* Jonker and Volgenant, "A shortest augmenting path algorithm for dense and sparse linear assignment problems", 1987.
///
/// *Departures from the reference.* Only its augmenting phase; the prices start at zero.
///
/// # Errors
/// When there is no whole row, or a cost is NaN or infinite.
pub fn solve_assignment(costs: &[f64], columns: usize) -> Result<Assignment, EmbedError> {
    if columns == 0 || costs.is_empty() || !costs.len().is_multiple_of(columns) {
        return Err(EmbedError::Length { found: costs.len(), dims: columns });
    }
    if let Some(index) = costs.iter().position(|cost| !cost.is_finite()) {
        return Err(EmbedError::NotFinite { index, found: costs[index] });
    }
    let rows = costs.len() / columns;
    let matched = if rows <= columns {
        match_short(rows, columns, |row, column| costs[row * columns + column]).into_iter().map(Some).collect()
    } else {
        let rows_of_columns = match_short(columns, rows, |column, row| costs[row * columns + column]);
        let mut matched = vec![None; rows];
        for (column, row) in rows_of_columns.into_iter().enumerate() {
            matched[row] = Some(column);
        }
        matched
    };
    let cost = (0..rows).filter_map(|row| matched[row].map(|column| costs[row * columns + column])).sum();
    Ok(Assignment { columns: matched, cost })
}

/// The column of each of `short` rows, where there are at least as many columns.
fn match_short(short: usize, long: usize, cost: impl Fn(usize, usize) -> f64) -> Vec<usize> {
    let mut row_of: Vec<Option<usize>> = vec![None; long];
    let mut column_of = vec![0; short];
    let mut row_price = vec![0.0; short];
    let mut column_price = vec![0.0; long];
    for entering in 0..short {
        let mut distance = vec![f64::INFINITY; long];
        let mut from = vec![entering; long];
        let mut done = vec![false; long];
        let mut settled: Vec<usize> = Vec::new();
        let mut row = entering;
        let mut travelled = 0.0;
        let free = loop {
            let mut next: Option<usize> = None;
            for column in 0..long {
                if done[column] {
                    continue;
                }
                let reduced = cost(row, column) - row_price[row] - column_price[column];
                if travelled + reduced < distance[column] {
                    distance[column] = travelled + reduced;
                    from[column] = row;
                }
                if next.is_none_or(|next| distance[column] < distance[next]) {
                    next = Some(column);
                }
            }
            let next = next.expect("fewer rows than columns are matched, so a column is left");
            travelled = distance[next];
            match row_of[next] {
                None => break next,
                Some(matched) => {
                    done[next] = true;
                    settled.push(next);
                    row = matched;
                }
            }
        };
        row_price[entering] += travelled;
        for &column in &settled {
            let slack = travelled - distance[column];
            column_price[column] -= slack;
            row_price[row_of[column].expect("settled columns are matched")] += slack;
        }
        let mut column = free;
        loop {
            let row = from[column];
            row_of[column] = Some(row);
            let given_up = std::mem::replace(&mut column_of[row], column);
            if row == entering {
                break;
            }
            column = given_up;
        }
    }
    column_of
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_ground::SplitMix64;

    fn smallest(costs: &[f64], columns: usize, row: usize, taken: &mut Vec<bool>) -> f64 {
        if row == costs.len() / columns {
            return 0.0;
        }
        let mut best = f64::INFINITY;
        for column in 0..columns {
            if !taken[column] {
                taken[column] = true;
                let rest = smallest(costs, columns, row + 1, taken);
                best = best.min(costs[row * columns + column] + rest);
                taken[column] = false;
            }
        }
        best
    }

    fn transposed(costs: &[f64], columns: usize) -> Vec<f64> {
        (0..columns).flat_map(|column| costs[column..].iter().step_by(columns).copied()).collect()
    }

    #[test]
    fn small_matrices_equal_a_search_of_all_matches() {
        let mut random = SplitMix64::new(8);
        for round in 0..200 {
            let rows = 1 + random.below(5);
            let columns = rows + random.below(3);
            // Few different values, so ties are common; some are negative.
            let costs: Vec<f64> = (0..rows * columns).map(|_| random.below(6) as f64 - 2.0).collect();
            let best = smallest(&costs, columns, 0, &mut vec![false; columns]);
            let wide = solve_assignment(&costs, columns).unwrap();
            assert_eq!(wide.cost, best, "round {round}");
            let tall = solve_assignment(&transposed(&costs, columns), rows).unwrap();
            assert_eq!(tall.cost, best, "round {round}");
            assert_eq!(tall.columns.iter().flatten().count(), rows);
            let mut used: Vec<usize> = wide.columns.into_iter().flatten().collect();
            used.sort_unstable();
            used.dedup();
            assert_eq!(used.len(), rows);
        }
    }

    #[test]
    fn broken_matrices_are_refused() {
        assert!(solve_assignment(&[], 2).is_err());
        assert!(solve_assignment(&[1.0], 0).is_err());
        assert!(matches!(solve_assignment(&[1.0, f64::NAN], 2), Err(EmbedError::NotFinite { index: 1, .. })));
    }
}
